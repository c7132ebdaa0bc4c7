"""On a real kubelet and containerd each container prints its own share, whatever is killed in between."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpufleet.agent.kubelet.kubelet_checkpoint import read_checkpoint
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.configuration import NODE_NAME
from tests.agent.node_values import SHARE
from tests.conventions.project import ROOT
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import PODS, a_pod, await_end, await_pod, awaited, get_pod, logs, run_pod

END = "all-is-printed"
PRINT = f"env | grep -E 'GPUFLEET|NVIDIA' | sort; ls /dev | grep nvidia; echo {END}"
STAY = f"{PRINT}; exec sleep 100000"
NODE = f"/api/v1/nodes/{NODE_NAME}"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
GREEDY = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "GPUFLEET_GPU_MILLI", "value": "1000"},
]
LONG_S = 150.0
"""The kubelet's pauses between tries grow."""


class Agent:
    """The process that gives shares."""

    def __init__(self, cluster: LocalCluster, state: Path) -> None:
        self.state = state
        node = cluster.node
        paths = (cluster.kubeconfig, node.kubelet_socket_dir, node.pod_resources_socket, node.cdi_dir, state)
        self._command = [sys.executable, "-m", "tests.agent.share_process", *map(str, paths)]
        self.start()

    def start(self) -> None:
        """A new process."""
        log = (self.state / "agent.log").open("ab")
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)
        log.close()

    def dies_before_a_start(self) -> None:
        """From now on it kills itself when a container is about to start."""
        (self.state / "die").touch()

    def await_death(self) -> None:
        """Return when it is dead."""
        self._process.wait(60)

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a real node and our scheduler."""
    with a_scheduled_real_node(tmp_path_factory.mktemp("real"), "shares") as running:
        yield running


@pytest.fixture(scope="module")
def agent(real: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """The agent on that node."""
    agent = Agent(real, tmp_path_factory.mktemp("agent"))
    awaited("slots are offered", lambda: slots(real) == 20, lambda: story(agent))
    yield agent
    agent.stop()


def story(agent: Agent) -> str:
    return (agent.state / "agent.log").read_text(encoding="utf-8")[-4000:]


def read(cluster: LocalCluster, path: str) -> Object:
    with cluster.api() as api:
        return api.call("GET", path)


def slots(cluster: LocalCluster) -> int:
    return int(read(cluster, NODE)["status"].get("allocatable", {}).get(SHARE, "0"))


def place(cluster: LocalCluster, name: str, fraction: str, script: str = PRINT) -> None:
    """A pod that wants a part of a GPU, left to our scheduler, and says that it has more."""
    placed = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
    wanted = {"annotations": {"gpufleet.io/gpu-fraction": fraction}}
    pod = a_pod(name, script, {"limits": {SHARE: "1"}}, **placed, **wanted)
    pod["spec"]["containers"][0]["env"] = GREEDY
    with cluster.api() as api:
        api.call("POST", PODS, pod)


def granted(cluster: LocalCluster, name: str) -> Object | None:
    """The one device of a pod's grant."""
    pod = get_pod(cluster, name) or {"metadata": {}}
    text = pod["metadata"].get("annotations", {}).get("gpufleet.io/grant")
    return None if text is None else dict(json.loads(text)["containers"]["main"][0])


def printed(cluster: LocalCluster, name: str) -> dict[str, str]:
    """What the container saw; device files under "devices"."""

    def whole() -> list[str]:
        """Nothing until the last line is there: a log may be read while its container still writes."""
        lines = logs(cluster, name).split()
        return lines[:-1] if lines and lines[-1] == END else []

    lines = awaited(f"{name} printed", whole)
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    return {**found, "devices": " ".join(line for line in lines if "=" not in line)}


def check_own(cluster: LocalCluster, name: str) -> Object:
    """The container sees exactly what its pod was granted."""
    grant, seen = granted(cluster, name), printed(cluster, name)
    assert grant is not None
    assert seen["GPUFLEET_POD"] == f"default/{name}"
    assert seen["GPUFLEET_DEVICES"] == grant["id"]
    assert int(seen["GPUFLEET_GPU_MILLI"]) == grant["gpuMilli"]
    assert int(seen["GPUFLEET_MEMORY_MIB"]) == grant["memoryMiB"]
    assert seen["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert seen["devices"] == f"nvidia{grant['id'][-1]}"
    return grant


@contextmanager
def removed(cluster: LocalCluster, *names: str) -> Iterator[None]:
    """The pods are gone after the block."""
    try:
        yield
    finally:
        with cluster.api() as api:
            for name in names:
                api.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 1})
    awaited("they are gone", lambda: not any(get_pod(cluster, name) for name in names))


def on_node(cluster: LocalCluster, name: str) -> Callable[[], object]:
    return lambda: granted(cluster, name)


def test_twins_with_shares_of_different_size_each_print_their_own(real: LocalCluster, agent: Agent) -> None:
    names = {f"twin-{number}": fraction for number, fraction in enumerate(("0.1", "0.4", "0.75"))}
    with removed(real, *names):
        with real.node.kubelet_stopped():
            for name, fraction in names.items():
                place(real, name, fraction)
            for name in names:
                awaited(f"{name} is placed", on_node(real, name))
        for name in names:
            awaited(f"{name} ends", lambda name=name: await_end(real, name) == 0, lambda: story(agent))  # type: ignore[misc]
        millis = [check_own(real, name)["gpuMilli"] for name in names]
        assert millis == [100, 400, 750]


def test_the_report_says_who_holds_what(real: LocalCluster, agent: Agent) -> None:
    with removed(real, "holds"):
        place(real, "holds", "0.5", STAY)
        uid = awaited("it runs", lambda: await_pod(real, "holds", "Running"), lambda: story(agent))[
            "metadata"
        ]["uid"]
        holders = awaited("its holder", lambda: read(real, REPORT)["spec"]["holders"])
        grant = check_own(real, "holds")
        assert [(one["podUID"], one["device"], one["gpuMilli"]) for one in holders] == [
            (uid, grant["id"], 500)
        ]
    awaited("nobody holds anything", lambda: read(real, REPORT)["spec"]["holders"] == [])


def test_a_pod_of_another_scheduler_is_refused_with_the_way_out(real: LocalCluster, agent: Agent) -> None:
    with removed(real, "stranger"):
        run_pod(real, "stranger", PRINT, {"limits": {SHARE: "1"}})
        failed = awaited("it fails", lambda: await_pod(real, "stranger", "Failed"), lambda: story(agent))
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
        assert "schedulerName: gpufleet" in failed["status"]["message"]


def test_an_agent_killed_between_allocate_and_start_gives_nothing_twice(
    real: LocalCluster, agent: Agent
) -> None:
    """Fault 25."""
    names = ("first", "second", "third")
    awaited("what pods before had is gone", lambda: not share_files(real))
    with removed(real, *names):
        agent.dies_before_a_start()
        for name in names[:2]:
            place(real, name, "0.75", STAY)
        agent.await_death()
        assert not share_files(real)
        assert {one.resource for one in read_checkpoint(real.node.kubelet_socket_dir)} == {SHARE}
        agent.start()
        for name in names[:2]:
            awaited(f"{name} runs", lambda name=name: running(real, name), lambda: story(agent), LONG_S)  # type: ignore[misc]
        place(real, "third", "0.75", STAY)
        devices = [check_own(real, name)["id"] for name in names[:2]]
        assert sorted(devices) == ["GPU-0", "GPU-1"]
        assert granted(real, "third") is None
        report = awaited("both are reported", lambda: both(real))
        assert {one["device"]: one["gpuMilli"] for one in report} == {"GPU-0": 750, "GPU-1": 750}


def share_files(cluster: LocalCluster) -> list[Path]:
    """The CDI files of shares that are on the node."""
    return list(cluster.node.cdi_dir.glob("gpufleet.io-share-*.json"))


def running(cluster: LocalCluster, name: str) -> bool:
    pod = get_pod(cluster, name)
    return pod is not None and pod["status"].get("phase") == "Running"


def both(cluster: LocalCluster) -> list[Object]:
    found: list[Object] = read(cluster, REPORT)["spec"]["holders"]
    return found if len(found) == 2 else []
