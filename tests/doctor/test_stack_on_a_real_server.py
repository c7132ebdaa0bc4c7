"""Ways to break drivers, plugins, runtimes, agents: on a real API server the right cause is named first."""

from typing import Any

import pytest

from gpufleet.localkube.access.api import Object
from tests.doctor.patient import Patient, a_deployment, a_pod
from tests.doctor.staging import (
    NAMES,
    PLUGIN,
    PODS,
    a_daemon,
    add_node,
    define,
    running,
    say_of_container,
)
from tests.doctor.test_placing_on_a_real_server import THERE, without_gpus

DRIVER = "nvcr.io/nvidia/driver:550.54.15-ubuntu22.04"
DEVICES = "/apis/gpufleet.io/v1alpha1/nodedevices"
FULL_DRIVER = "nvidia.com/cuda.driver-version.full"
HOUR_S = 3600.0
CUDA_13 = "nvidia/cuda:13.0.0-runtime-ubuntu22.04"
"""It needs driver 580.65.06, and 525 at least for its compatibility package (NVIDIA's release notes)."""


def follows(found: Any) -> set[str]:
    return {one.check.id for one in found.follows}


def label(patient: Patient, name: str, key: str, value: str | None, back: str | None = None) -> None:
    labels = {"metadata": {"labels": {key: value}}}
    patient.patch_node(name, labels, {"metadata": {"labels": {key: back}}})


def report(patient: Patient, name: str, change: Object) -> None:
    """Let the agent of a node report something else."""
    before = patient.api.call("GET", f"{DEVICES}/{name}")["spec"]
    back = {"spec": {key: before[key] for key in change}}
    patient.patch(f"{DEVICES}/{name}", {"spec": change}, back)


def devices_of(patient: Patient, name: str) -> list[Object]:
    return list(patient.api.call("GET", f"{DEVICES}/{name}")["spec"]["devices"])


def test_a_plugin_that_crashes(patient: Patient) -> None:
    patient.apply(a_daemon("plugin", PLUGIN))
    for name in running(patient, "plugin"):
        say_of_container(patient, name, "CrashLoopBackOff", "back-off 5m0s restarting failed container")
    for name in NAMES:
        without_gpus(patient, name, "allocatable", left="0")
    patient.apply(a_pod("waits"))
    found = patient.finds(
        "plugin-failing", "DaemonSet default/plugin", "CrashLoopBackOff, last end Error", "gpu-001"
    )
    assert follows(found) == {"capacity-lost", "fits-nowhere"}


def test_a_driver_whose_image_is_not_there(patient: Patient) -> None:
    patient.apply(a_daemon("driver", DRIVER), a_daemon("plugin", PLUGIN))
    define(patient, "nvidia.com", "ClusterPolicy", "clusterpolicies")
    patient.apply(a_policy(state="notReady"))
    drivers, plugins = running(patient, "driver"), running(patient, "plugin")
    for name in drivers:
        say_of_container(patient, name, "ImagePullBackOff", "not found")
    for name in plugins:
        say_of_container(patient, name, "CrashLoopBackOff")
    found = patient.finds("driver-failing", "DaemonSet default/driver", "ImagePullBackOff", age_s=HOUR_S)
    assert follows(found) == {"plugin-failing", "operator-unready"}


def test_discovery_that_crashes(patient: Patient) -> None:
    patient.apply(a_daemon("features", PLUGIN, {"name": "main", "command": ["gpu-feature-discovery"]}))
    for name in running(patient, "features"):
        say_of_container(patient, name, "RunContainerError")
    patient.finds("discovery-failing", "feature discovery does not get up", "RunContainerError")


def a_policy(state: str, **spec: Any) -> Object:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {"cdi": {"enabled": True}, **spec},
        "status": {"state": state},
    }


def test_an_operator_that_is_not_done(patient: Patient) -> None:
    define(patient, "nvidia.com", "ClusterPolicy", "clusterpolicies")
    patient.apply(a_policy(state="notReady"))
    patient.finds("operator-unready", "ClusterPolicy cluster-policy", "status.state: notReady", age_s=HOUR_S)


NEEDS_CLASS = {
    "cdi": {"enabled": False},
    "toolkit": {"enabled": True, "env": [{"name": "CONTAINERD_SET_AS_DEFAULT", "value": "false"}]},
}


def test_an_operator_without_its_runtime_class(patient: Patient) -> None:
    define(patient, "nvidia.com", "ClusterPolicy", "clusterpolicies")
    patient.apply(a_policy(state="ready", **NEEDS_CLASS))
    patient.finds(
        "stack-runtime-class-missing", "ClusterPolicy cluster-policy", "there is no RuntimeClass nvidia"
    )


def test_work_without_the_runtime_class_that_it_needs(patient: Patient) -> None:
    define(patient, "nvidia.com", "ClusterPolicy", "clusterpolicies")
    patient.apply(a_policy(state="ready", **NEEDS_CLASS))
    patient.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        }
    )
    patient.apply(a_deployment("bare", a_pod("bare")))
    patient.finds("runtime-class-unnamed", "Deployment default/bare", "only pods of the class nvidia")


def test_a_plugin_that_does_not_tolerate_the_taint(patient: Patient) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    for name in NAMES:
        patient.patch_node(name, {"spec": {"taints": [taint]}}, {"spec": {"taints": None}})
        without_gpus(patient, name, "capacity", "allocatable")
    patient.apply(a_daemon("plugin", PLUGIN), a_pod("waits"))
    found = patient.finds(
        "plugin-missing", "do not tolerate nvidia.com/gpu=present:NoSchedule", "Scheduled 0"
    )
    assert '"key": "nvidia.com/gpu"' in found.failure.mends[0].command
    assert "fits-nowhere" in follows(found)


def test_a_plugin_that_selects_no_node(patient: Patient) -> None:
    for name in NAMES:
        without_gpus(patient, name, "allocatable", left="0")
    patient.apply(a_daemon("plugin", PLUGIN, nodeSelector={"gpu": "on"}))
    found = patient.finds("plugin-missing", "its pods select gpu", "Scheduled 0")
    assert follows(found) == {"capacity-lost"}


def test_a_plugin_whose_pods_nobody_may_make(patient: Patient) -> None:
    for name in NAMES:
        without_gpus(patient, name, "allocatable", left="0")
    patient.apply(a_daemon("plugin", PLUGIN, priorityClassName="absent"))
    found = patient.finds(
        "plugin-missing", "its pods cannot be made", "no PriorityClass with name absent was found"
    )
    assert "capacity-lost" in follows(found)


def test_a_driver_that_takes_too_long(patient: Patient) -> None:
    patient.apply(a_daemon("driver", DRIVER))
    for name in running(patient, "driver"):
        say_of_container(patient, name, "ContainerCreating")
    assert not patient.examined().causes
    patient.finds("driver-failing", "not ready for 60 minutes", age_s=HOUR_S)


def test_two_plugins_for_the_same_cards(patient: Patient) -> None:
    patient.apply(
        a_daemon("plugin", PLUGIN), a_daemon("second", "registry.example/gke/nvidia-gpu-device-plugin:1")
    )
    running(patient, "plugin"), running(patient, "second")
    patient.finds("plugins-rival", "DaemonSet default/plugin and DaemonSet default/second")


def test_mps_and_discovery_are_no_second_plugin(patient: Patient) -> None:
    patient.apply(
        a_daemon("plugin", PLUGIN),
        a_daemon("mps", PLUGIN, {"command": ["mps-control-daemon"]}),
        a_daemon("features", PLUGIN, {"command": ["gpu-feature-discovery"]}),
    )
    for app in ("plugin", "mps", "features"):
        running(patient, app)
    patient.is_healthy()


def test_a_driver_that_differs(patient: Patient) -> None:
    for name in NAMES:
        label(patient, name, FULL_DRIVER, "535.104.05" if name == "gpu-005" else "550.54.15")
    patient.finds("driver-skew", "gpu-005", "driver 550.54.15 on 5 nodes", "gpu-005: driver 535.104.05")


def test_an_upgrade_under_way_is_no_skew(patient: Patient) -> None:
    for name in NAMES:
        label(patient, name, FULL_DRIVER, "535.104.05" if name == "gpu-005" else "550.54.15")
    label(patient, "gpu-005", "nvidia.com/gpu-driver-upgrade-state", "drain-required")
    patient.is_healthy()


def an_image_pod(name: str, image: str) -> Object:
    pod = a_pod(name)
    pod["spec"]["containers"][0]["image"] = image
    return pod


def test_a_cuda_that_no_driver_knows(patient: Patient) -> None:
    for name in NAMES:
        label(patient, name, FULL_DRIVER, "470.42.01")
    patient.apply(a_deployment("new", an_image_pod("new", CUDA_13)))
    patient.finds("image-runs-nowhere", "Deployment default/new", "470.42.01")


def test_a_cuda_that_one_node_does_not_know(patient: Patient) -> None:
    # Of another product, so that the difference of drivers is no finding of its own.
    name = add_node(patient, model="A100-80GB")
    patient.change(f"/api/v1/nodes/{name}", {"metadata": {"labels": {FULL_DRIVER: "470.42.01"}}})
    for other in NAMES:
        label(patient, other, FULL_DRIVER, "580.65.06")
    patient.apply(a_deployment("new", an_image_pod("new", CUDA_13)))
    patient.finds("image-runs-somewhere", "Deployment default/new", f"{name}: refused; 6 nodes")


@pytest.mark.parametrize(
    ("reason", "message", "means"),
    [
        (
            "CreateContainerError",
            "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=GPU-1",
            "no CDI device of that name",
        ),
        (
            "RunContainerError",
            "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
            "no driver is loaded",
        ),
        (
            "CreateContainerError",
            "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch",
            "is not the one that is installed",
        ),
        (
            "RunContainerError",
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update",
            "requires a newer driver",
        ),
    ],
)
def test_a_runtime_that_hands_out_no_gpu(patient: Patient, reason: str, message: str, means: str) -> None:
    patient.apply({**a_pod("refused"), "metadata": {"name": "refused", "labels": {"app": "refused"}}})
    (name,) = running(patient, "refused", 1)
    say_of_container(patient, name, reason, message)
    patient.finds("runtime-refuses-gpu", "Pod default/refused", means)


def test_a_runtime_handler_that_is_missing(patient: Patient) -> None:
    patient.apply({**a_pod("sandbox"), "metadata": {"name": "sandbox", "labels": {"app": "sandbox"}}})
    (name,) = running(patient, "sandbox", 1)
    say_of_container(patient, name, "ContainerCreating")
    patient.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "sandbox.1"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": name},
            "type": "Warning",
            "reason": "FailedCreatePodSandBox",
            "message": 'failed to get sandbox runtime: no runtime for "nvidia" is configured',
        }
    )
    patient.finds("runtime-refuses-gpu", "Pod default/sandbox", "no handler of the RuntimeClass's name")


def test_what_was_said_of_an_earlier_pod_of_the_same_name(patient: Patient) -> None:
    patient.apply({**a_pod("again"), "metadata": {"name": "again", "labels": {"app": "again"}}})
    (name,) = running(patient, "again", 1)
    say_of_container(patient, name, "ContainerCreating")
    patient.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "again.1"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": name, "uid": "an-earlier-one"},
            "type": "Warning",
            "reason": "FailedCreatePodSandBox",
            "message": 'no runtime for "nvidia" is configured',
        }
    )
    assert not patient.examined().causes


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfnvidia.com/gpu"])
def test_a_pod_that_the_kubelet_turned_away(patient: Patient, reason: str) -> None:
    patient.apply({**a_pod("refused"), "metadata": {"name": "refused", "labels": {"app": "refused"}}})
    (name,) = running(patient, "refused", 1)
    patient.change(
        f"{PODS}/{name}/status", {"status": {"phase": "Failed", "reason": reason, "message": "no devices"}}
    )
    patient.finds("kubelet-refuses-pods", "Pod default/refused", reason)


def test_an_agent_that_has_not_come_back_from_a_reboot(patient: Patient) -> None:
    report(patient, "gpu-004", {"bootID": "an-earlier-one"})
    patient.finds("agent-outdated", "gpu-004", "its NodeDevices are of boot an-earlier-one", age_s=HOUR_S)


def test_a_card_that_fell_off_the_bus(patient: Patient) -> None:
    devices = devices_of(patient, "gpu-006")
    devices[3] |= {"health": "unhealthy", "healthReason": "Xid 79: the card has fallen off the bus"}
    report(patient, "gpu-006", {"devices": devices})
    without_gpus(patient, "gpu-006", "allocatable", left="7")
    found = patient.finds("devices-sick", "gpu-006", "Xid 79", str(devices[3]["id"]))
    assert "reboot" in found.failure.mends[0].does
    assert follows(found) == {"capacity-lost"}


def test_an_agent_that_counts_otherwise_than_the_kubelet(patient: Patient) -> None:
    there = {"status": dict.fromkeys(("capacity", "allocatable"), THERE)}
    fewer = {"status": {part: {"nvidia.com/gpu": "6"} for part in ("capacity", "allocatable")}}
    patient.patch_node("gpu-002", fewer, there, status=True)
    patient.finds("devices-miscounted", "gpu-002", "sees 8 GPUs", "told of 6")


def test_a_node_that_lost_its_labels(patient: Patient) -> None:
    product = "nvidia.com/gpu.product"
    before = patient.api.call("GET", "/api/v1/nodes/gpu-003")["metadata"]["labels"][product]
    label(patient, "gpu-003", product, None, before)
    patient.finds("labels-missing", "gpu-003", f"no label {product}")
