"""Ways to ask for what is not there: on a real API server the right cause is named first."""

from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.patient import Patient, a_deployment, a_pod
from tests.doctor.staging import NAMES, add_node


def asking(name: str, limits: Object, **spec: Any) -> Object:
    """A pod with these limits."""
    pod = a_pod(name, **spec)
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    return pod


def test_a_resource_in_the_plural(patient: Patient) -> None:
    patient.apply(asking("plural", {"nvidia.com/gpus": "1"}))
    found = patient.finds("resource-misnamed", "Pod default/plural", "nvidia.com/gpus")
    assert found.failure.mends[0].does == "did you mean nvidia.com/gpu?"


def test_a_resource_in_capitals(patient: Patient) -> None:
    patient.apply(a_deployment("loud", asking("loud", {"nvidia.com/GPU": "1"})))
    found = patient.finds("resource-misnamed", "Deployment default/loud", "nvidia.com/GPU")
    assert found.failure.mends[0].does == "did you mean nvidia.com/gpu?"


def test_shares_that_nobody_offers(patient: Patient) -> None:
    patient.apply(asking("shared", {"nvidia.com/gpu.shared": "1"}))
    found = patient.finds("resource-misnamed", "nvidia.com/gpu.shared is no resource of any node")
    assert [one.check.id for one in found.follows] == ["fits-nowhere"]


def test_a_profile_that_no_card_has(patient: Patient) -> None:
    patient.apply(asking("cut", {"nvidia.com/mig-3g.20gb": "1"}))
    found = patient.finds(
        "mig-profile-impossible", "Pod default/cut", "no GPU of the cluster can be cut into 3g.20gb"
    )
    assert [one.check.id for one in found.follows] == ["fits-nowhere"]


def test_a_profile_that_no_card_is_cut_into(patient: Patient) -> None:
    patient.apply(asking("cut", {"nvidia.com/mig-3g.40gb": "1"}))
    patient.finds(
        "fits-nowhere",
        "Pod default/cut",
        "nvidia.com/mig-3g.40gb",
        "offers gpufleet.io/gpu-share, nvidia.com/gpu",
    )


def test_more_cpu_than_any_node_has(patient: Patient) -> None:
    patient.apply(asking("broad", {"nvidia.com/gpu": "1", "cpu": "200"}))
    patient.finds("fits-nowhere", "Pod default/broad", "asks for 200 CPU", "more than 128 CPU")


def test_more_memory_than_any_node_has(patient: Patient) -> None:
    patient.apply(asking("deep", {"nvidia.com/gpu": "1", "memory": "2Ti"}))
    patient.finds("fits-nowhere", "asks for 2048.0 GiB of memory", "more than 1024.0 GiB")


def test_pods_without_gpus_hold_the_cpu(patient: Patient) -> None:
    for name in NAMES:
        patient.apply(asking(f"web-{name}", {"cpu": "120"}, nodeName=name))
    patient.apply(asking("train", {"nvidia.com/gpu": "8", "cpu": "64"}))
    found = patient.finds(
        "gpus-crowded-out", "Pod default/train", "gpu-001: 120 CPU held by Pod default/web-gpu-001"
    )
    assert found.failure.mends[0].command.endswith("nvidia.com/gpu=present:NoSchedule")


def test_other_gpu_pods_that_hold_the_cpu_are_waited_for(patient: Patient) -> None:
    for name in NAMES:
        patient.apply(asking(f"busy-{name}", {"nvidia.com/gpu": "1", "cpu": "120"}))
    patient.apply(asking("train", {"nvidia.com/gpu": "4", "cpu": "64"}))
    patient.is_healthy()


def test_pods_without_gpus_on_open_gpu_nodes(patient: Patient) -> None:
    add_node(patient, prefix="cpu", gpus=0)
    patient.apply(asking("web", {"cpu": "1"}, nodeName="gpu-001"))
    patient.finds("gpu-nodes-open", "gpu-001: Pod default/web")


def test_a_claim_that_is_not_there(patient: Patient) -> None:
    patient.apply(with_claim("reader", "models"))
    patient.finds("volume-unbound", "Pod default/reader", "default/models", "there is no such claim")


def test_a_storage_class_that_is_not_there(patient: Patient) -> None:
    patient.apply(a_claim("models", "fast-nvme"), with_claim("reader", "models"))
    patient.finds("volume-unbound", "there is no StorageClass fast-nvme")


def test_no_storage_class_at_all(patient: Patient) -> None:
    patient.apply(a_claim("models", None), with_claim("reader", "models"))
    patient.finds("volume-unbound", "no default and no free volume")


def test_a_provisioner_that_refuses(patient: Patient) -> None:
    patient.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "slow"},
            "provisioner": "example.com/none",
        },
        a_claim("models", "slow"),
        with_claim("reader", "models"),
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "models.1"},
            "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "models"},
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": "out of space",
        },
    )
    patient.finds("volume-unbound", "provisioning fails: out of space")


def a_claim(name: str, storage_class: str | None) -> Object:
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def with_claim(name: str, claim: str) -> Object:
    return a_pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])


def test_a_node_that_is_named_and_not_there(patient: Patient) -> None:
    pod = a_pod("pinned", nodeName="gpu-99")
    patient.without_device_policies(pod)
    patient.apply(a_deployment("pinned", pod))
    patient.finds("node-named-missing", "Deployment default/pinned", "spec.nodeName: gpu-99")
