"""What a node offers, from the objects that speak of it."""

import pytest

from gpufleet.kube.codec.node import is_anonymous, read_node
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects import node as wire
from gpufleet.kube.objects.storage import CsiNode
from gpufleet.model.cuda_compatibility import ALL_DRIVER_FEATURES
from gpufleet.model.device import Serves
from gpufleet.model.taint import Taint
from gpufleet.model.volumes import Attachment
from tests.kube.wire_objects import a_node, decoded, some_devices

A_REPORT = {"id": "GPU-1", "vendor": "NVIDIA", "model": "NVIDIA-A100-SXM4-80GB", "memoryMiB": 81920}


def test_amounts_are_exact() -> None:
    offered = read_node(
        a_node(
            {
                "cpu": "63770m",
                "memory": "1056489Ki",
                "ephemeral-storage": "1e9",
                "pods": "110",
                "hugepages-2Mi": "0",
                "example.com/fpga": "2",
            }
        )
    ).allocatable
    assert (offered.cpu_milli, offered.memory_bytes, offered.pods) == (63770, 1056489 * 1024, 110)
    assert offered.ephemeral_storage_bytes == 10**9
    assert offered.other == (("example.com/fpga", 2),)


def test_without_a_report_gpus_are_whole_and_have_no_ids() -> None:
    node = read_node(
        a_node(
            {"nvidia.com/gpu": "2"},
            labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"},
        )
    )
    assert [device.model for device in node.devices] == ["T4", "T4"]
    assert [device.memory_mib for device in node.devices] == [15360, 15360]
    assert all(is_anonymous(device.id) and device.serves is Serves.WHOLE for device in node.devices)
    assert node.allocatable.other == ()


@pytest.mark.parametrize(
    ("resource", "labels", "model"),
    [
        ("amd.com/gpu", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "MI300X"),
        ("gpu.intel.com/xe", {"gpu.intel.com/product": "Max_1550"}, "Max-1550"),
    ],
)
def test_each_maker_labels_its_product(resource: str, labels: dict[str, str], model: str) -> None:
    assert [device.model for device in read_node(a_node({resource: "1"}, labels=labels)).devices] == [model]


def test_a_report_is_believed_instead_of_the_count() -> None:
    node = read_node(
        a_node({"nvidia.com/gpu": "1", "gpufleet.io/gpu-share": "20"}),
        some_devices(
            {**A_REPORT, "usableMemoryMiB": 80384, "numaNode": 1, "linkGroup": 3},
            {**A_REPORT, "id": "GPU-2", "sharing": "mixed", "health": "unhealthy", "healthReason": "Xid 79"},
        ),
    )
    first, second = node.devices
    assert (first.id, first.model, first.memory_mib) == ("GPU-1", "A100-80GB", 80384)
    assert (first.numa_node, first.link_group, first.serves, first.healthy) == (1, 3, Serves.WHOLE, True)
    assert (second.memory_mib, second.serves, second.healthy) == (81920, Serves.ANY, False)
    assert node.allocatable.other == (("gpufleet.io/gpu-share", 20),)


@pytest.mark.parametrize(
    ("sharing", "serves"),
    [
        ("whole", Serves.WHOLE),
        ("shares", Serves.SHARE),
        ("mixed", Serves.ANY),
        ("mig", Serves.NOTHING),
        ("nothing", Serves.NOTHING),
    ],
)
def test_sharing_mode_says_what_a_device_serves(sharing: str, serves: Serves) -> None:
    node = read_node(a_node({"nvidia.com/gpu": "1"}), some_devices({**A_REPORT, "sharing": sharing}))
    assert node.devices[0].serves is serves


@pytest.mark.parametrize("counted", [{}, {"nvidia.com/gpu": "0"}])
@pytest.mark.parametrize(("sharing", "serves"), [("whole", Serves.NOTHING), ("mixed", Serves.SHARE)])
def test_while_the_plugin_is_away_no_whole_gpu_is_given(
    counted: dict[str, str], sharing: str, serves: Serves
) -> None:
    # The kubelet refuses what asks for more than it counts (OutOfnvidia.com/gpu), whatever was reported.
    node = read_node(a_node(counted), some_devices({**A_REPORT, "sharing": sharing}))
    assert node.devices[0].serves is serves


@pytest.mark.parametrize(
    ("effect", "healthy"), [("NoSchedule", False), ("NoExecute", False), ("None", True), ("Later", True)]
)
def test_nothing_new_is_placed_on_a_device_whose_taint_says_so(effect: str, *, healthy: bool) -> None:
    """As in resource.k8s.io, an effect that nobody knows is none."""
    taint = {"key": "example.com/repair", "effect": effect}
    assert read_node(a_node(), some_devices({**A_REPORT, "taints": [taint]})).devices[0].healthy is healthy


def test_nothing_new_is_placed_where_nobody_knows_the_health() -> None:
    node = read_node(a_node(), some_devices({**A_REPORT, "health": "unknown"}))
    assert not node.devices[0].healthy


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "spec.devices[0].id"),
        ({"id": "anonymous-0"}, "spec.devices[0].id"),
        ({"sharing": "some"}, "spec.devices[0].sharing"),
        ({"health": "fine"}, "spec.devices[0].health"),
        ({"memoryMiB": 0}, "spec.devices[0].memoryMiB"),
        ({"usableMemoryMiB": 90000}, "spec.devices[0].usableMemoryMiB"),
        ({"linkGroup": -1}, "spec.devices[0].linkGroup"),
    ],
)
def test_an_impossible_device_names_its_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_node(a_node(), some_devices({**A_REPORT, **change}))
    assert caught.value.field == field
    assert "node-1" in str(caught.value)


def test_a_device_cannot_be_there_twice() -> None:
    with pytest.raises(ObjectError, match="the same device twice"):
        read_node(a_node(), some_devices(A_REPORT, A_REPORT))


def test_taints_features_and_cordon_are_kept() -> None:
    node = read_node(
        a_node(
            status={"declaredFeatures": ["B", "A"]},
            unschedulable=True,
            taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        )
    )
    assert node.unschedulable
    assert node.features == ("A", "B", *ALL_DRIVER_FEATURES)
    assert node.taints == (Taint("nvidia.com/gpu", "present", "NoSchedule"),)


@pytest.mark.parametrize(
    ("text", "cordoned", "until_us"),
    [
        ("2026-01-01T00:00:00Z", True, 1_767_225_600_000_000),
        # Whoever opened the node again has ended its drain.
        ("2026-01-01T00:00:00Z", False, None),
        ("soon", True, None),
        (None, True, None),
    ],
)
def test_a_closed_node_says_until_when_its_drain_waits(
    text: str | None, cordoned: bool, until_us: int | None
) -> None:
    annotations = {"example.com/other": "x"} | ({} if text is None else {"gpufleet.io/backfill-until": text})
    written = {"metadata": {"name": "a", "annotations": annotations}, "spec": {"unschedulable": cordoned}}
    assert read_node(decoded(written, wire.Node)).draining_until_us == until_us


def test_drivers_without_a_count_have_no_limit() -> None:
    drivers = [
        {"name": "ebs.csi.aws.com", "allocatable": {"count": 25}},
        {"name": "nfs.csi.k8s.io", "allocatable": {}},
    ]
    csi = decoded({"metadata": {"name": "node-1"}, "spec": {"drivers": drivers}}, CsiNode)
    assert read_node(a_node(), csi=csi).volume_limits == (("ebs.csi.aws.com", 25),)


def test_a_node_without_csi_drivers_is_written_with_null() -> None:
    """As kubelets write it: the field has to be there, and an empty list of Go is null."""
    csi = decoded({"metadata": {"name": "node-1"}, "spec": {"drivers": None}}, CsiNode)
    node = read_node(a_node(), csi=csi)
    assert (node.volume_limits, node.features) == ((), ALL_DRIVER_FEATURES)


def test_drivers_and_attached_volumes_of_limited_drivers_are_told() -> None:
    drivers = [{"name": "ebs.csi.aws.com", "allocatable": {"count": 25}}, {"name": "nfs.csi.k8s.io"}]
    csi = decoded({"metadata": {"name": "node-1"}, "spec": {"drivers": drivers}}, CsiNode)
    attached = [Attachment("ebs.csi.aws.com", "vol-1"), Attachment("nfs.csi.k8s.io", "share")]
    node = read_node(a_node(), csi=csi, attached=attached)
    assert node.features == ("CSI driver ebs.csi.aws.com", "CSI driver nfs.csi.k8s.io", *ALL_DRIVER_FEATURES)
    assert node.attached == (Attachment("ebs.csi.aws.com", "vol-1"),)


@pytest.mark.parametrize(
    ("node", "field"),
    [
        (a_node({"cpu": "-1"}), "status.allocatable[cpu]"),
        (a_node({"cpu": "many"}), "status.allocatable[cpu]"),
        (a_node({"nvidia.com/gpu": "1000000"}), "status.allocatable"),
        (a_node(taints=[{"key": "a b", "effect": "NoSchedule"}]), "spec.taints[0].key"),
        (a_node(taints=[{"key": "a", "effect": "Never"}]), "spec.taints[0].effect"),
        (a_node(name="Node_1\n"), "metadata.name"),
    ],
)
def test_an_impossible_node_names_its_field(node: object, field: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_node(node)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert "\n" not in str(caught.value)
