"""On a real node, a guide's ConfigMap and a guide's pod: the GPUs are shared, and the pod sees its own alone.

Guides have pods name all devices in NVIDIA_VISIBLE_DEVICES beside their limit, and NVIDIA's plugin tells
devices by the same variable unless its config says otherwise. Below containerd is a stand-in for NVIDIA's
runtime, which gives every GPU to a container that says so.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpufleet.cli.up import components
from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.localkube import manifests
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.node_agent import await_resource, start_agent
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.nvidia_runtime import write_runtime
from tests.agent.test_real_kubelet import BY_US, TELL, asking, numbered, told
from tests.localkube.cluster import KUBERNETES, all_programs, real_node_programs
from tests.localkube.real_node import PODS, a_pod, await_end, await_pod, awaited, delete_pod

CARDS = 2
GUIDE = Path("tests/corpus/devices/guides/operator-all-nodes.yaml")
MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
FOLLOWING = [f"--nvidia-config-map={namespace}/{name}" for namespace, name in NVIDIA_CONFIG_MAPS]


@pytest.fixture(params=["cdi-cri", "cdi-annotations", "envvar", "volume-mounts"])
def way(request: pytest.FixtureRequest) -> str:
    """How the node's containers get their devices."""
    found: str = request.param
    return found


@pytest.fixture
def real(tmp_path: Path, way: str) -> Iterator[LocalCluster]:
    """A cluster with our scheduler and a real node with two GPUs, without a configuration of its own."""
    real_node_programs()
    options = Options(kubernetes=KUBERNETES, real_node=True)
    programs = dict(all_programs(options))
    programs["runc"] = write_runtime(tmp_path / "runc", programs["runc"])
    with LocalCluster.start(tmp_path / "c", "c", programs, options, components=components()) as running:
        with running.api() as api:
            running.node.await_ready(api)
            manifests.install(api)
            body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
            api.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", {**body, "handler": "nvidia"})
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}
            api.call("POST", "/api/v1/namespaces", namespace)
        running.furnished()
        flags = (*FOLLOWING, "--nvidia-config-map-every-s=0", f"--device-list-strategy={way}")
        start_agent(running, f"gpus: [{{model: H100-80GB, count: {CARDS}}}]\n", flags)
        await_resource(running, NVIDIA_GPU, CARDS)
        for component in components():
            running.await_component(component)
        yield running


def test_a_guides_config_is_followed_and_a_guides_pod_sees_its_device_alone_or_is_refused(
    real: LocalCluster, way: str
) -> None:
    known = numbered(real)
    with real.api() as api:
        api.call("POST", MAPS, msgspec.yaml.decode(GUIDE.read_bytes()))
    await_resource(real, NVIDIA_GPU, 4 * CARDS)
    note = awaited("what is offered is told", lambda: taken(real))
    assert "time-slicing-config-all, key any is taken over: 2 GPUs are offered as 8 nvidia.com/gpu" in note
    greedy = a_pod("greedy", TELL, asking(1), **BY_US, runtimeClassName="nvidia")
    greedy["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    with real.api() as api:
        api.call("POST", PODS, greedy)
    if way.startswith("cdi"):
        assert await_end(real, "greedy") == 0
        its = told(real, "greedy")
        (replica,) = its["given"]
        assert its["devices"] == [known[replica.partition("::")[0]]]
        assert its["variable"] == ["void"]
    else:
        message = await_pod(real, "greedy", "Failed")["status"]["message"]
        assert "sets NVIDIA_VISIBLE_DEVICES itself, which would win: leave it out" in message
    delete_pod(real, "greedy")
    with real.api() as api:
        api.call("DELETE", f"{MAPS}/time-slicing-config-all")
    await_resource(real, NVIDIA_GPU, CARDS)


def taken(cluster: LocalCluster) -> str:
    """What the Event says of a configuration that was taken over; empty as long as there is none."""
    with cluster.api() as api:
        events = api.call("GET", EVENTS)["items"]
    return next((one["note"] for one in events if one["reason"] == "SharingConfigTaken"), "")
