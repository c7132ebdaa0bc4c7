"""The chart on a real node, with the built image: a GPU pod comes, is measured, and goes.

kube-scheduler places the chart's own pods, as it does everywhere; the GPUs are simulated by the agent, and
all else is as on any node: kubelet, containerd, the image's Python, the token of a pod.
"""

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.localkube.api import Object
from gpufleet.localkube.cluster import LocalCluster
from tests.chart.rendering import CHART, NAMESPACE, RELEASE, as_options, helm
from tests.image.built import DIGEST, image
from tests.localkube.cluster import a_cluster, program
from tests.localkube.real_node import await_pod, awaited, delete_pod, logs, run_pod

MACHINE = "gpus:\n- {model: H100-80GB, count: 4, numaNodes: 2}\n"
SHARING = """\
version: gpufleet.io/v1alpha1
pools:
  default:
  - {gpus: [3], fractions: {maxShares: 10}}
"""
VALUES = {
    "image.pullPolicy": "Never",
    "agent.simulatedMachine": MACHINE,
    "agent.sharing.configs": {"default": SHARING},
}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEVICES = "/apis/gpufleet.io/v1alpha1/nodedevices"
METRICS_WAIT_S = 10.0
# Two schedulers load their kernels, an agent starts, all on a machine that does other things too.
READY_WAIT_S = 240.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A real node with the image on it, and the chart installed by helm."""
    archive = image()
    values = {**VALUES, "image.digest": DIGEST.read_text(encoding="utf-8").strip()}
    with a_cluster(tmp_path_factory.mktemp("chart"), "chart", real_node=True) as running:
        running.node.import_images(archive)
        scheduler = running.start_kube_scheduler(program("kube-scheduler"))
        try:
            in_cluster(running, "install", RELEASE, CHART, "--create-namespace", *as_options(values))
            yield running
        finally:
            scheduler.stop()


def in_cluster(cluster: LocalCluster, *arguments: str | Path) -> str:
    """What helm says, asked about this cluster; it leaves nothing in a home folder."""
    home = cluster.folder / "helm"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "KUBECONFIG": str(cluster.kubeconfig),
        **{f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")},
    }
    return helm(*arguments, f"--namespace={NAMESPACE}", environment=environment)


def component(cluster: LocalCluster, name: str) -> list[Object]:
    """The pods of one component."""
    with cluster.api() as api:
        found: list[Object] = api.call("GET", f"{PODS}?labelSelector=app.kubernetes.io/component={name}")[
            "items"
        ]
    return found


def ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def state(cluster: LocalCluster) -> str:
    """What each pod of the release says of itself, for a test that fails."""
    lines = []
    for name in ("scheduler", "agent"):
        for pod in component(cluster, name):
            own = pod["metadata"]["name"]
            with cluster.api() as api:
                _, log = api.request("GET", f"{PODS}/{own}/log?tailLines=40")
            lines.append(f"{own}: {pod['status']}\n{log.decode(errors='replace')}")
    return "\n".join(lines)


def all_ready(cluster: LocalCluster, name: str, count: int) -> None:
    """Return when so many pods of a component are ready."""
    awaited(
        f"{count} of {name} ready",
        lambda: sum(map(ready, component(cluster, name))) == count,
        lambda: state(cluster),
        READY_WAIT_S,
    )


@pytest.fixture(scope="module")
def at_work(cluster: LocalCluster) -> LocalCluster:
    """The same, when every pod of the release is ready."""
    all_ready(cluster, "scheduler", 2)
    all_ready(cluster, "agent", 1)
    return cluster


def test_the_release_finds_itself_at_work(at_work: LocalCluster) -> None:
    try:
        said = in_cluster(at_work, "test", RELEASE, "--logs", "--timeout=3m")
    except AssertionError as failed:
        raise AssertionError(f"{failed}\n{state(at_work)}") from failed
    for sentence in (
        "a pod that names its own devices is refused",
        "leads",
        "1 of 1 agents are ready",
        "1 node reports 4 GPUs",
    ):
        assert sentence in said, said


def series(cluster: LocalCluster) -> list[str]:
    """What the agent tells Prometheus."""
    (agent,) = component(cluster, "agent")
    address = f"http://{agent['status']['podIP']}:9400/metrics"
    with urllib.request.urlopen(address, timeout=METRICS_WAIT_S) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_a_gpu_pod_is_placed_started_measured_and_gone(at_work: LocalCluster) -> None:
    script = "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 100000"
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    run_pod(at_work, "train", script, limits, nodeName="", schedulerName="gpufleet")
    pod = await_pod(at_work, "train", "Running")
    assert pod["spec"]["nodeName"] == at_work.node.name
    granted = pod["metadata"]["annotations"]["gpufleet.io/grant"]
    (held,) = awaited("who holds it", lambda: holders(at_work))
    assert held["podUID"] == pod["metadata"]["uid"]
    assert held["device"] in granted
    awaited(
        "its series", lambda: measured(at_work, held["device"], "train"), lambda: "\n".join(series(at_work))
    )
    awaited("what it printed", lambda: logs(at_work, "train"))
    delete_pod(at_work, "train")
    awaited("nobody holds it", lambda: not holders(at_work))


def holders(cluster: LocalCluster) -> list[Object]:
    """Who holds a device of the node, as its agent reports."""
    with cluster.api() as api:
        found: list[Object] = api.call("GET", f"{DEVICES}/{cluster.node.name}")["spec"].get("holders", [])
    return found


def measured(cluster: LocalCluster, device: str, pod: str) -> bool:
    """Whether the device's utilisation is told under the pod's name."""
    return any(
        line.startswith("DCGM_FI_DEV_GPU_UTIL{") and f'UUID="{device}"' in line and f'pod="{pod}"' in line
        for line in series(cluster)
    )


def test_no_kernel_was_compiled_in_the_cluster(at_work: LocalCluster) -> None:
    """All that numba found are links into the image; what it had to compile would be a file."""
    for pod in component(at_work, "scheduler"):
        volumes = f"/var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~empty-dir"
        kernels = list(at_work.node.path(f"{volumes}/kernels").rglob("*.nb[ic]"))
        assert len(kernels) > 50
        assert [path.name for path in kernels if not path.is_symlink()] == []


def test_an_agent_in_a_pod_writes_of_its_own_node(at_work: LocalCluster) -> None:
    """The policy knows the node from the pod's token, which no test made."""
    name = at_work.node.name

    def told() -> bool:
        with at_work.api() as api:
            node = api.call("GET", f"/api/v1/nodes/{name}")
        conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        labels = node["metadata"]["labels"]
        return conditions.get("gpufleet.io/GPUHealthy") == "True" and "nvidia.com/gpu.product" in labels

    awaited("condition and labels", told, lambda: state(at_work))
    with at_work.api() as api:
        names = [one["metadata"]["name"] for one in api.call("GET", DEVICES)["items"]]
    assert names == [name]


def test_after_an_uninstall_the_definition_is_still_there(at_work: LocalCluster) -> None:
    """Last, because it takes everything else away."""
    in_cluster(at_work, "uninstall", RELEASE)
    with at_work.api() as api:
        assert api.request("GET", DEVICES)[0] == 200
        policies = api.call("GET", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies")
        assert policies["items"] == []
    awaited("no pods", lambda: not [*component(at_work, "scheduler"), *component(at_work, "agent")])
