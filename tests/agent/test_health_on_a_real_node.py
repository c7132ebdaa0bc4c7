"""On a real kubelet, the node says what GPUs it has; one that fails leaves, harms no other and comes back.

Faults 32 to 34 of GPUs, on one node with eight of them. Three are held by the pod ``steady`` all the while.
"""

import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from gpufleet.agent.gpus.simulation_control import tell
from gpufleet.agent.reports.node_condition import ANNOTATION, TYPE
from gpufleet.devices.simulated.orders import (
    AnyOrder,
    BreakDriver,
    Hang,
    Lose,
    RaiseXid,
    Release,
    Reset,
    UpdateDriver,
)
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.agent_program import agent_folder
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node_agent import METRICS_PORT, await_resource, machine_of, start_agent
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import await_pod, awaited, delete_pod, get_pod, processes_of, run_pod

NODE = f"/api/v1/nodes/{NODE_NAME}"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
EIGHT = SimulatedNodes(0, 8, gpu_model("H100-80GB"))
STAY = "exec sleep 100000"
BY_US: Object = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
STEADY = "steady"
HELD = 3
UNREACHABLE = "node.kubernetes.io/unreachable"
READINGS = ("gpufleet_gpu_power_watts", "gpufleet_gpu_busy_ratio", "DCGM_FI_DEV_GPU_TEMP")
"""Some of the series that are absent, and never 0, for a card that does not answer."""

HEALTHY = "gpufleet_gpu_healthy"
ENERGY = "gpufleet_gpu_energy_joules_total"
"""Grows with every reading."""

FLAPS = 10
FLAP_GAP_S = 0.6


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster whose real node has an agent with eight simulated GPUs, our scheduler, and ``steady``."""
    with a_scheduled_real_node(tmp_path_factory.mktemp("real"), "agent") as running:
        start_agent(running, machine_of(EIGHT), ["--sample-every-s=1"])
        await_resource(running, NVIDIA_GPU, 8)
        run_pod(running, STEADY, STAY, asking(HELD), **BY_US)
        await_pod(running, STEADY, "Running")
        awaited("its holders are reported", lambda: len(holders(running)) == HELD)
        yield running


@pytest.fixture
def untouched(real: LocalCluster) -> Iterator[None]:
    """I12: the processes of ``steady``, and what it holds, are the same after the test."""
    before = processes_of(await_pod(real, STEADY, "Running")), held_by_steady(real)
    yield
    assert (processes_of(await_pod(real, STEADY, "Running")), held_by_steady(real)) == before


def asking(count: int) -> Object:
    return {"limits": {NVIDIA_GPU: str(count)}}


def read(cluster: LocalCluster, path: str) -> Object:
    with cluster.api() as api:
        return api.call("GET", path)


def order(cluster: LocalCluster, *orders: AnyOrder) -> None:
    """Have this done to the machine's GPUs."""
    for one in orders:
        tell(agent_folder(cluster.folder), one)


def uuids(cluster: LocalCluster) -> list[str]:
    """The GPUs by their index."""
    return [one["id"] for one in read(cluster, REPORT)["spec"]["devices"]]


def holders(cluster: LocalCluster) -> list[tuple[str, str]]:
    """Device and pod of everything that is held."""
    found = read(cluster, REPORT)["spec"].get("holders", [])
    return [(one["device"], one["podUID"]) for one in found]


def held_by_steady(cluster: LocalCluster) -> list[str]:
    """The GPUs of ``steady``."""
    uid = (get_pod(cluster, STEADY) or {})["metadata"]["uid"]
    return sorted(device for device, holder in holders(cluster) if holder == uid)


def free(cluster: LocalCluster) -> list[str]:
    """The GPUs that nobody holds and nothing is against, by their index."""
    taken = {device for device, _ in holders(cluster)} | set(sick(cluster))
    return [one for one in uuids(cluster) if one not in taken]


def sick(cluster: LocalCluster) -> dict[str, str]:
    """The GPUs that are reported as other than healthy, with the reason."""
    devices = read(cluster, REPORT)["spec"].get("devices", [])
    return {one["id"]: one["healthReason"] for one in devices if one.get("health", "healthy") != "healthy"}


def device_taints(cluster: LocalCluster) -> dict[str, str]:
    """The taint of each GPU that has one."""
    devices = read(cluster, REPORT)["spec"].get("devices", [])
    found = {one["id"]: one["taints"] for one in devices if one.get("taints")}
    return {gpu: f"{one['key']}={one['value']}:{one['effect']}" for gpu, (one,) in found.items()}


def offered(cluster: LocalCluster) -> int:
    """How many GPUs the kubelet has to give."""
    return int(read(cluster, NODE)["status"]["allocatable"][NVIDIA_GPU])


def condition(cluster: LocalCluster) -> Object:
    """What the Node says of its GPUs."""
    found: list[Object] = read(cluster, NODE)["status"]["conditions"]
    return next((one for one in found if one["type"] == TYPE), {"status": "absent"})


def problems(cluster: LocalCluster) -> str:
    """The Node's annotation for people."""
    found: str = read(cluster, NODE)["metadata"]["annotations"].get(ANNOTATION, "")
    return found


def errors_told(cluster: LocalCluster) -> list[str]:
    """What Events say to ``steady`` of the errors of its GPUs."""
    items = read(cluster, EVENTS)["items"]
    return [one["note"] for one in items if (one["reason"], one["regarding"]["name"]) == ("GPUError", STEADY)]


def series(cluster: LocalCluster, name: str, label: str = "") -> dict[str, float]:
    """A family of the agent's metrics, by the UUID of the GPU; cards without a value have none."""
    url = f"http://{cluster.node.address}:{METRICS_PORT}/metrics"
    with urllib.request.urlopen(url, timeout=5.0) as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for line in lines:
        if line.startswith(f"{name}{{") and label in line:
            labels, _, value = line.rpartition(" ")
            gpu = next(part for part in labels.split('"') if part.startswith("GPU-"))
            found[gpu] = float(value)
    return found


def await_series(cluster: LocalCluster, name: str, gpus: set[str]) -> None:
    """Return when exactly these GPUs have a value in a family."""
    awaited(f"{name} of these alone", lambda: set(series(cluster, name)) == gpus)


def await_sick(cluster: LocalCluster, gpu: str, reason: str) -> None:
    """Return when it is reported as out of service or unknown with these words."""
    awaited(f"{gpu} is reported", lambda: reason in sick(cluster).get(gpu, ""))


def xids(cluster: LocalCluster, code: int) -> dict[str, float]:
    """How often each GPU reported this error."""
    return series(cluster, "gpufleet_gpu_xid_errors_total", f'xid="{code}"')


def test_the_node_is_labelled_with_its_gpus(real: LocalCluster) -> None:
    labels = awaited("its labels", lambda: gpu_labels(real))
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.replicas"]) == ("8", "1")
    assert labels["nvidia.com/gpu.family"] == "hopper"


def gpu_labels(cluster: LocalCluster) -> dict[str, str]:
    """The labels of NVIDIA's GPUs on the Node; none before the agent wrote them."""
    labels = read(cluster, NODE)["metadata"]["labels"]
    return {name: value for name, value in labels.items() if name.startswith("nvidia.com/")}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("code", [94, 13, 31])
def test_fault_32_an_error_of_a_program_is_told_to_its_pod_and_takes_no_card_out(
    real: LocalCluster, code: int
) -> None:
    gpu, before = held_by_steady(real)[0], sick(real)
    order(real, RaiseXid(gpu, code))
    note = awaited("its pod is told", lambda: [one for one in errors_told(real) if f"Xid {code} " in one])
    assert len(note) == 1
    assert gpu in note[0]
    assert note[0].endswith("the program is at fault or lost, the GPU is well")
    awaited("it is counted", lambda: xids(real, code) == {gpu: 1.0})
    assert sick(real) == before
    assert offered(real) == 8 - len(before)


@pytest.mark.usefixtures("untouched")
def test_fault_32_the_trace_of_another_error_is_counted_and_nothing_follows(real: LocalCluster) -> None:
    gpu, before = held_by_steady(real)[0], sick(real)
    order(real, RaiseXid(gpu, 43))
    awaited("it is counted", lambda: xids(real, 43) == {gpu: 1.0})
    assert sick(real) == before
    assert offered(real) == 8 - len(before)
    assert [note for note in errors_told(real) if "Xid 43 " in note] == []


@pytest.mark.usefixtures("untouched")
def test_fault_32_a_card_that_needs_a_reset_or_is_gone_is_out_until_it_had_it(real: LocalCluster) -> None:
    assert sick(real) == {}
    assert condition(real)["status"] == "True"
    held, (idle, gone) = held_by_steady(real)[1], free(real)[:2]
    codes = {idle: 48, held: 95, gone: 79}
    for gpu, code in codes.items():
        order(real, RaiseXid(gpu, code))
        await_sick(real, gpu, f"Xid {code}:")
    assert set(sick(real)) == set(codes)
    why = {gpu: f"gpufleet.io/unhealthy=xid-{code}:NoSchedule" for gpu, code in codes.items()}
    assert device_taints(real) == why
    await_resource(real, NVIDIA_GPU, 5)
    awaited("the Node says so", lambda: condition(real)["status"] == "False")
    awaited("it names them", lambda: all(gpu in problems(real) for gpu in codes))
    awaited("no reading of what is gone", lambda: gone not in series(real, READINGS[0]))
    known = {gpu: float(gpu not in codes) for gpu in uuids(real)}
    awaited("they alone are out", lambda: series(real, HEALTHY) == known)
    (note,) = awaited("who holds one is told", lambda: [one for one in errors_told(real) if "Xid 95 " in one])
    assert note.endswith("the GPU takes no new work until it was reset")

    order(real, *(Reset(gpu) for gpu in codes))
    await_resource(real, NVIDIA_GPU, 8)
    awaited("they are reported as healthy", lambda: sick(real) == {})
    assert device_taints(real) == {}
    awaited("the Node says so", lambda: condition(real)["status"] == "True")


@pytest.mark.usefixtures("untouched")
def test_fault_33_one_card_hangs_and_another_is_lost_and_the_others_go_on(real: LocalCluster) -> None:
    stuck, lost = held_by_steady(real)[0], free(real)[-1]
    order(real, Hang(stuck), Lose(lost))
    await_sick(real, stuck, "no answer")
    await_sick(real, lost, "Xid 79:")
    others = set(uuids(real)) - {stuck, lost}
    for name in READINGS:
        await_series(real, name, others)
    known = {**dict.fromkeys(others, 1.0), lost: 0.0}
    awaited("nobody knows of the one that hangs", lambda: series(real, HEALTHY) == known)
    assert set(series(real, "gpufleet_gpu_health_info", 'state="unknown"')) == {stuck}
    energy = series(real, ENERGY)
    awaited(
        "the others are read anew", lambda: all(series(real, ENERGY)[gpu] > energy[gpu] for gpu in others)
    )
    await_resource(real, NVIDIA_GPU, 6)
    order(real, Release(stuck), Reset(lost))
    awaited("it is back at once", lambda: stuck not in sick(real))


@pytest.mark.usefixtures("untouched")
def test_fault_33_a_driver_that_was_updated_is_waited_for(real: LocalCluster) -> None:
    before = sick(real)
    mismatch = "Driver/library version mismatch"
    order(real, BreakDriver(mismatch))
    awaited("no card is known", lambda: set(sick(real)) == set(uuids(real)))
    awaited("the Node says why", lambda: f"NVIDIA: {mismatch}" in problems(real))
    for name in READINGS:
        await_series(real, name, set())
    awaited("nobody knows of those that were in service", lambda: set(series(real, HEALTHY)) == set(before))
    order(real, UpdateDriver("590.44.01"))
    awaited("all are known again", lambda: set(sick(real)) <= set(before))
    awaited("the new driver is reported", lambda: read(real, REPORT)["spec"]["driver"] == "590.44.01")
    awaited("readings are back", lambda: len(series(real, READINGS[0])) == 8)


@pytest.mark.usefixtures("untouched")
def test_fault_34_a_node_that_was_not_ready_gives_no_device_twice(real: LocalCluster) -> None:
    kubelet = real.node.pid("kubelet")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        declare_lost(real)
        awaited("it is left alone", lambda: UNREACHABLE in taints(real))
        run_pod(real, "later", f"echo $GPUFLEET_DEVICES; {STAY}", asking(4), **BY_US)
        awaited("it waits", lambda: unplaced(real, "later"))
    finally:
        os.kill(kubelet, signal.SIGCONT)
    awaited("it is Ready", lambda: ready(real) == "True")
    awaited("it may be used", lambda: UNREACHABLE not in taints(real))
    await_pod(real, "later", "Running")
    run_pod(real, "beyond", STAY, asking(8 - HELD - 4 + 1), **BY_US)
    awaited("it waits", lambda: unplaced(real, "beyond"))
    awaited("what is held is reported", lambda: len(holders(real)) == HELD + 4)
    devices = [device for device, _ in holders(real)]
    assert len(set(devices)) == HELD + 4
    delete_pod(real, "beyond")
    delete_pod(real, "later")


def declare_lost(cluster: LocalCluster) -> None:
    """Say of the Node what the controller of nodes says when the kubelet was silent for a while."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
    with cluster.api() as api:
        api.call(
            "PATCH",
            f"{NODE}/status",
            {"status": {"conditions": [lost]}},
            content_type="application/strategic-merge-patch+json",
        )


def ready(cluster: LocalCluster) -> str:
    """Whether the Node is Ready."""
    found = read(cluster, NODE)["status"]["conditions"]
    return next(str(one["status"]) for one in found if one["type"] == "Ready")


def taints(cluster: LocalCluster) -> list[str]:
    """The keys of the Node's taints."""
    return [one["key"] for one in read(cluster, NODE)["spec"].get("taints", [])]


def unplaced(cluster: LocalCluster, name: str) -> bool:
    """Whether the scheduler has said of a pod that it finds no place."""
    pod = get_pod(cluster, name) or {"status": {}}
    conditions = pod["status"].get("conditions", [])
    said = any((one["type"], one["status"]) == ("PodScheduled", "False") for one in conditions)
    return said and "nodeName" not in pod["spec"]


@pytest.mark.usefixtures("untouched")
def test_fault_34_a_card_that_flaps_ten_times_leaves_once_and_is_told_once(real: LocalCluster) -> None:
    gpu = held_by_steady(real)[2]
    others = set(sick(real))
    order(real, RaiseXid(gpu, 119))
    awaited("it is out", lambda: gpu in sick(real))
    counts = set()
    for _ in range(FLAPS - 1):
        order(real, Reset(gpu))
        time.sleep(FLAP_GAP_S)
        counts.add(gpu in sick(real))
        order(real, RaiseXid(gpu, 119))
        time.sleep(FLAP_GAP_S)
        counts.add(gpu in sick(real))
    assert counts == {True}
    awaited("each is counted", lambda: xids(real, 119) == {gpu: float(FLAPS)}, lambda: str(xids(real, 119)))
    assert len([note for note in errors_told(real) if "Xid 119 " in note]) == 1
    assert set(sick(real)) <= others | {gpu}
    order(real, Reset(gpu))
