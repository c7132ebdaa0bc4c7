"""What volumes ask of a place, rule by rule as kube-scheduler applies them."""

from typing import Any

import pytest

from gpufleet.kube import resources
from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.codec.volumes import read_volumes
from gpufleet.kube.codec.waits import WaitReason
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.storage import (
    CsiDriver,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from gpufleet.model.volumes import Attachment, UnboundClaim, Volumes
from tests.kube.shelf import Shelf
from tests.kube.wire_objects import a_pod

DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
ASKS = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "local",
    "resources": {"requests": {"storage": "10Gi"}},
}


def in_zone(zone: str) -> dict[str, Any]:
    expressions = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


def a_shelf(
    *, mode: str | None = "WaitForFirstConsumer", provisioner: str = "csi.example.com", **more: Any
) -> Shelf:
    """A cluster with one class of storage."""
    shelf = Shelf()
    shelf.put(
        resources.STORAGE_CLASSES,
        StorageClass,
        "local",
        provisioner=provisioner,
        volumeBindingMode=mode,
        **more,
    )
    return shelf


def claim(shelf: Shelf, name: str = "data", *, metadata: Any = None, status: Any = None, **spec: Any) -> None:
    written = {"uid": f"uid-of-{name}", **(metadata or {})}
    kind = resources.PERSISTENT_VOLUME_CLAIMS
    parts: dict[str, Any] = {"metadata": written, "spec": {**ASKS, **spec}, "status": status or {}}
    shelf.put(kind, PersistentVolumeClaim, name, "team-a", **parts)


def volume(shelf: Shelf, name: str, size: str = "10Gi", *, phase: str = "Available", **spec: Any) -> None:
    metadata = {"labels": spec.pop("labels", {}), "deletionTimestamp": spec.pop("deletionTimestamp", None)}
    written = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "storageClassName": "local",
        **spec,
    }
    parts: dict[str, Any] = {"metadata": metadata, "spec": written, "status": {"phase": phase}}
    shelf.put(resources.PERSISTENT_VOLUMES, PersistentVolume, name, **parts)


def unbound(shelf: Shelf) -> UnboundClaim:
    """The one claim that is decided with the place."""
    read = read_volumes(a_pod(volumes=[DATA]), shelf)
    assert read.waits == ()
    (found,) = read.volumes.volumes.unbound
    return found


def test_a_bound_claim_is_used_where_its_volume_is() -> None:
    shelf = a_shelf()
    claim(shelf, metadata=BOUND, volumeName="pv-1")
    volume(
        shelf, "pv-1", nodeAffinity=in_zone("a"), csi={"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
    )
    read = read_volumes(a_pod(volumes=[DATA]), shelf)
    (reach,) = read.volumes.affinities
    assert reach.accepts({"topology.kubernetes.io/zone": "a"}, "n")
    assert not reach.accepts({"topology.kubernetes.io/zone": "b"}, "n")
    assert read.volumes.volumes == Volumes(attachments=(Attachment("ebs.csi.aws.com", "vol-1"),))
    assert read.waits == ()


@pytest.mark.parametrize(
    ("source", "attachment"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-2"}}, Attachment("ebs.csi.aws.com", "vol-2")),
        ({"gcePersistentDisk": {"pdName": "disk"}}, Attachment("pd.csi.storage.gke.io", "disk")),
        ({"azureDisk": {"diskName": "d", "diskURI": "/sub/d"}}, Attachment("disk.csi.azure.com", "/sub/d")),
        ({"cinder": {"volumeID": "c"}}, Attachment("cinder.csi.openstack.org", "c")),
    ],
)
def test_disks_that_moved_to_drivers_count_there(source: dict[str, Any], attachment: Attachment) -> None:
    shelf = a_shelf()
    claim(shelf, metadata=BOUND, volumeName="pv-1")
    volume(shelf, "pv-1", **source)
    assert read_volumes(a_pod(volumes=[DATA]), shelf).volumes.volumes.attachments == (attachment,)
    inline = a_pod(volumes=[{"name": "disk", **source}])
    assert read_volumes(inline, Shelf()).volumes.volumes.attachments == (attachment,)


BETA_ZONE, ZONE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("volume_labels", "node_labels", "usable"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a", "topology.kubernetes.io/region": "r"}, {ZONE: "a"}, False),
    ],
)
def test_zone_labels_of_old_volumes(
    volume_labels: dict[str, str], node_labels: dict[str, str], usable: bool
) -> None:
    shelf = a_shelf()
    claim(shelf, metadata=BOUND, volumeName="pv-1")
    volume(shelf, "pv-1", labels=volume_labels)
    (reach,) = read_volumes(a_pod(volumes=[DATA]), shelf).volumes.affinities
    assert reach.accepts(node_labels, "n") is usable


def waiting(shelf: Shelf, **volume_source: Any) -> WaitReason:
    pod = a_pod(volumes=[{"name": "data", **volume_source} if volume_source else DATA])
    (wait,) = read_volumes(pod, shelf).waits
    return wait.reason


def test_reasons_to_wait() -> None:
    assert waiting(a_shelf()) is WaitReason.CLAIM_MISSING
    shelf = a_shelf()
    claim(shelf, metadata=BOUND, volumeName="gone")
    assert waiting(shelf) is WaitReason.VOLUME_MISSING
    shelf = a_shelf()
    claim(shelf, status={"phase": "Lost"})
    assert waiting(shelf) is WaitReason.CLAIM_LOST
    shelf = a_shelf()
    claim(shelf, metadata={"deletionTimestamp": "2020-01-01T00:00:00Z"})
    assert waiting(shelf) is WaitReason.CLAIM_DELETED
    shelf = a_shelf(mode="Immediate")
    claim(shelf)
    assert waiting(shelf) is WaitReason.CLAIM_UNBOUND
    shelf = a_shelf()
    claim(shelf, volumeName="pv-1")
    assert waiting(shelf) is WaitReason.CLAIM_UNBOUND
    shelf = a_shelf()
    claim(shelf, storageClassName="absent")
    assert waiting(shelf) is WaitReason.CLASS_MISSING
    shelf = a_shelf()
    claim(shelf, storageClassName="")
    assert waiting(shelf) is WaitReason.CLAIM_UNBOUND


def test_an_ephemeral_volume_has_a_claim_of_the_pods_own() -> None:
    shelf = a_shelf()
    assert waiting(shelf, ephemeral={}) is WaitReason.CLAIM_MISSING
    claim(shelf, "train-0-data")
    assert waiting(shelf, ephemeral={}) is WaitReason.CLAIM_FOREIGN
    owner = {"kind": "Pod", "name": "train-0", "uid": "uid-of-train-0", "controller": True}
    claim(shelf, "train-0-data", metadata={"ownerReferences": [owner]}, accessModes=["ReadWriteOncePod"])
    read = read_volumes(a_pod(volumes=[{"name": "data", "ephemeral": {}}]), shelf)
    assert [one.claim for one in read.volumes.volumes.unbound] == ["team-a/train-0-data"]
    assert read.volumes.volumes.exclusive == ()


def test_a_claim_for_one_pod_at_a_time() -> None:
    shelf = a_shelf()
    claim(shelf, accessModes=["ReadWriteOncePod"])
    assert read_volumes(a_pod(volumes=[DATA]), shelf).volumes.volumes.exclusive == ("team-a/data",)


@pytest.mark.parametrize("prevents", [True, False])
def test_a_driver_may_have_to_be_on_the_node(prevents: bool) -> None:
    shelf = a_shelf()
    spec = {"preventPodSchedulingIfMissing": prevents}
    shelf.put(resources.CSI_DRIVERS, CsiDriver, "csi.example.com", spec=spec)
    claim(shelf)
    found = read_volumes(a_pod(volumes=[DATA]), shelf).volumes
    assert found.features == (("CSI driver csi.example.com",) if prevents else ())
    shape = read_pod(a_pod(volumes=[DATA]), volumes=found).shape
    assert shape.features == found.features


def test_of_the_volumes_that_fit_the_smallest_is_best() -> None:
    shelf = a_shelf()
    claim(shelf)
    volume(shelf, "large", "20Gi")
    volume(shelf, "exact", "10Gi")
    volume(shelf, "small", "5Gi")
    volume(shelf, "unreadable", "many")
    volume(shelf, "used", phase="Bound")
    volume(shelf, "other-class", storageClassName="network")
    volume(shelf, "block", volumeMode="Block")
    volume(shelf, "read-only", accessModes=["ReadOnlyMany"])
    volume(shelf, "attributes", volumeAttributesClassName="fast")
    volume(shelf, "leaving", deletionTimestamp="2026-01-01T00:00:00Z")
    volume(shelf, "others", claimRef={"namespace": "team-b", "name": "data"})
    assert [one.volume for one in unbound(shelf).candidates] == ["exact", "large"]


def test_a_selector_of_volumes() -> None:
    shelf = a_shelf()
    claim(shelf, selector={"matchLabels": {"speed": "fast"}})
    volume(shelf, "slow", labels={"speed": "slow"})
    volume(shelf, "fast", "1Ti", labels={"speed": "fast"})
    assert [one.volume for one in unbound(shelf).candidates] == ["fast"]


def test_a_volume_that_is_reserved_for_the_claim_goes_before_all_others() -> None:
    shelf = a_shelf()
    claim(shelf)
    volume(shelf, "free")
    volume(shelf, "reserved", "1Ti", claimRef={"namespace": "team-a", "name": "data"}, phase="Released")
    volume(shelf, "before", claimRef={"namespace": "team-a", "name": "data", "uid": "of-an-older-claim"})
    assert [one.volume for one in unbound(shelf).candidates] == ["reserved"]


def test_without_a_provisioner_only_volumes_that_exist_will_do() -> None:
    shelf = a_shelf(provisioner="kubernetes.io/no-provisioner")
    claim(shelf)
    volume(shelf, "pv-1", nodeAffinity=in_zone("a"))
    found = unbound(shelf)
    assert found.provision is None
    assert not found.candidates[0].reach.accepts({ZONE: "b"}, "n")
    assert read_volumes(a_pod(volumes=[DATA]), shelf).volumes.volumes.attachments == ()


def can_be_made(found: UnboundClaim, labels: dict[str, str], node: str = "node-1") -> bool:
    assert found.provision is not None
    return any(reach.accepts(labels, node) for reach in found.provision)


def test_a_volume_can_be_made_everywhere_if_the_class_says_nothing() -> None:
    shelf = a_shelf()
    claim(shelf)
    assert can_be_made(unbound(shelf), {})
    attachments = read_volumes(a_pod(volumes=[DATA]), shelf).volumes.volumes.attachments
    assert attachments == (Attachment("csi.example.com", "claim/team-a/data"),)


def test_topologies_that_the_class_allows() -> None:
    expressions = [{"key": ZONE, "values": ["a", "b"]}]
    shelf = a_shelf(allowedTopologies=[{"matchLabelExpressions": expressions}])
    claim(shelf)
    assert can_be_made(unbound(shelf), {ZONE: "b"})
    assert not can_be_made(unbound(shelf), {ZONE: "c"})


def test_room_that_the_driver_reports() -> None:
    shelf = a_shelf()
    claim(shelf)
    shelf.put(resources.CSI_DRIVERS, CsiDriver, "csi.example.com", spec={"storageCapacity": True})
    assert unbound(shelf).provision == ()
    for number, room in enumerate(["5Gi", "10Gi", "20Gi"]):
        shelf.put(
            resources.CSI_STORAGE_CAPACITIES,
            CsiStorageCapacity,
            f"capacity-{number}",
            "kube-system",
            storageClassName="local",
            capacity=room,
            nodeTopology={"matchLabels": {"host": f"node-{number}"}},
        )
    found = unbound(shelf)
    assert [can_be_made(found, {"host": f"node-{number}"}) for number in range(3)] == [False, True, True]
    # Thousands of nodes must not become thousands of terms.
    assert found.provision is not None
    assert len(found.provision) == 1


def test_the_largest_volume_counts_more_than_the_capacity() -> None:
    shelf = a_shelf()
    claim(shelf)
    shelf.put(resources.CSI_DRIVERS, CsiDriver, "csi.example.com", spec={"storageCapacity": True})
    parts = {"storageClassName": "local", "capacity": "1Ti", "maximumVolumeSize": "1Gi", "nodeTopology": {}}
    shelf.put(resources.CSI_STORAGE_CAPACITIES, CsiStorageCapacity, "c", "kube-system", **parts)
    assert not can_be_made(unbound(shelf), {})


def test_a_node_that_was_chosen_stays_chosen() -> None:
    shelf = a_shelf()
    claim(shelf, metadata={"annotations": {"volume.kubernetes.io/selected-node": "node-7"}})
    volume(shelf, "pv-1")
    found = unbound(shelf)
    assert found.candidates == ()
    assert can_be_made(found, {}, "node-7")
    assert not can_be_made(found, {}, "node-8")


def test_what_is_wrong_with_a_volume_names_it() -> None:
    shelf = a_shelf()
    claim(shelf, metadata=BOUND, volumeName="pv-1")
    expressions = [{"key": "a b", "operator": "Exists"}]
    volume(
        shelf, "pv-1", nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    )
    with pytest.raises(ObjectError) as caught:
        read_volumes(a_pod(volumes=[DATA]), shelf)
    assert caught.value.field == "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key"


def test_a_pod_without_volumes_asks_nothing() -> None:
    assert read_volumes(a_pod(), Shelf()).volumes.volumes == Volumes()
