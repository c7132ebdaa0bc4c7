"""Ways to break where pods go: on a real API server with simulated nodes, the right cause is named first."""

from tests.doctor.patient import Patient, a_deployment, a_pod

PRODUCT = "nvidia.com/gpu.product"
THERE = {"nvidia.com/gpu": "8", "gpufleet.io/gpu-share": "800"}
NAMES = [f"gpu-{number:03}" for number in range(1, 7)]


def without_gpus(patient: Patient, name: str, *where: str, left: str | None = None) -> None:
    """Let the node's kubelet say that it has no GPUs, or only so many."""
    gone = {"status": {part: dict.fromkeys(THERE, left) for part in where}}
    patient.patch_node(name, gone, {"status": dict.fromkeys(where, THERE)}, status=True)


def test_a_label_that_no_node_has(patient: Patient) -> None:
    patient.apply(a_pod("typo", nodeSelector={PRODUCT: "NVIDIA-H100-80GB"}))
    found = patient.finds("selector-matches-nothing", "Pod default/typo")
    assert "did you mean" in found.failure.mends[0].does


def test_a_taint_that_nobody_tolerates(patient: Patient) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    for name in NAMES:
        patient.patch_node(name, {"spec": {"taints": [taint]}}, {"spec": {"taints": None}})
    patient.apply(a_deployment("serve", a_pod("serve")))
    patient.finds("taint-untolerated", "Deployment default/serve", "nvidia.com/gpu")


def test_more_gpus_than_any_node_has(patient: Patient) -> None:
    patient.apply(a_pod("greedy", 16))
    patient.finds("fits-nowhere", "16 nvidia.com/gpu", "more than 8")


def test_no_device_plugin_anywhere(patient: Patient) -> None:
    for name in NAMES:
        without_gpus(patient, name, "capacity", "allocatable")
    patient.apply(a_pod("waits"))
    found = patient.finds("plugin-missing", "gpu-001", "no DaemonSet of the cluster is a device plugin")
    assert [one.check.id for one in found.follows] == ["fits-nowhere"]


def test_capacity_without_allocatable(patient: Patient) -> None:
    without_gpus(patient, "gpu-003", "allocatable", left="0")
    patient.finds("capacity-lost", "gpu-003", "nvidia.com/gpu allocatable 0, capacity 8")


def test_a_runtime_class_that_is_missing(patient: Patient) -> None:
    patient.apply(a_deployment("classy", a_pod("classy", runtimeClassName="nvidia")))
    patient.finds("runtime-class-missing", "Deployment default/classy", "nvidia")
