"""On a real kubelet, the node says what GPUs it has; one that fails leaves, harms no other and comes back."""

from collections.abc import Iterator

import pytest

from gpufleet.agent.gpus.simulation_door import tell
from gpufleet.agent.reports.node_condition import ANNOTATION, TYPE
from gpufleet.devices.simulated.orders import RaiseXid, Reset
from gpufleet.localkube.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.agent_program import agent_folder
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node_agent import await_resource, machine_of, start_agent
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import PODS, a_pod, await_pod, awaited, processes_of

NODE = f"/api/v1/nodes/{NODE_NAME}"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
EIGHT = SimulatedNodes(0, 8, gpu_model("H100-80GB"))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster whose real node has an agent with eight simulated GPUs, and our scheduler."""
    with a_scheduled_real_node(tmp_path_factory.mktemp("real"), "agent") as running:
        start_agent(running, machine_of(EIGHT))
        await_resource(running, NVIDIA_GPU, 8)
        yield running


def read(cluster: LocalCluster, path: str) -> Object:
    with cluster.api() as api:
        return api.call("GET", path)


def sick(cluster: LocalCluster) -> dict[str, str]:
    """The GPUs that are reported as unhealthy, with the reason."""
    devices = read(cluster, REPORT)["spec"].get("devices", [])
    return {one["id"]: one["healthReason"] for one in devices if one.get("health", "healthy") != "healthy"}


def condition(cluster: LocalCluster) -> Object:
    """What the Node says of its GPUs."""
    found: list[Object] = read(cluster, NODE)["status"]["conditions"]
    return next((one for one in found if one["type"] == TYPE), {"status": "absent"})


def test_the_node_is_labelled_with_its_gpus(real: LocalCluster) -> None:
    labels = awaited("its labels", lambda: gpu_labels(real))
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.replicas"]) == ("8", "1")
    assert labels["nvidia.com/gpu.family"] == "hopper"


def gpu_labels(cluster: LocalCluster) -> dict[str, str]:
    """The labels of NVIDIA's GPUs on the Node; none before the agent wrote them."""
    labels = read(cluster, NODE)["metadata"]["labels"]
    return {name: value for name, value in labels.items() if name.startswith("nvidia.com/")}


def test_a_gpu_that_falls_off_the_bus_is_out_of_service_until_it_is_back(real: LocalCluster) -> None:
    placed = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
    with real.api() as api:
        api.call("POST", PODS, a_pod("steady", "exec sleep 100000", {"limits": {NVIDIA_GPU: "1"}}, **placed))
    steady = await_pod(real, "steady", "Running")
    processes = processes_of(steady)
    holders = awaited("its holder is reported", lambda: read(real, REPORT)["spec"].get("holders"))
    held = [one["device"] for one in holders if one["podUID"] == steady["metadata"]["uid"]]
    assert len(held) == 1
    assert sick(real) == {}
    assert condition(real)["status"] == "True"

    door = agent_folder(real.folder)
    other = next(gpu for gpu in tell(door, RaiseXid("0", 13)).gpus if gpu.uuid != held[0])
    tell(door, RaiseXid(other.uuid, 79))
    await_resource(real, NVIDIA_GPU, 7)
    awaited("it is reported", lambda: list(sick(real)) == [other.uuid])
    assert "Xid 79" in sick(real)[other.uuid]
    awaited("the Node says so", lambda: condition(real)["status"] == "False")
    assert other.uuid in read(real, NODE)["metadata"]["annotations"][ANNOTATION]

    tell(door, Reset(other.uuid))
    await_resource(real, NVIDIA_GPU, 8)
    awaited("it is reported as healthy", lambda: sick(real) == {})
    awaited("the Node says so", lambda: condition(real)["status"] == "True")
    assert processes_of(await_pod(real, "steady", "Running")) == processes
