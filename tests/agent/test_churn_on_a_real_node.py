"""Fifty pods come and go over eight shared GPUs, and no part of a card is ever in two hands.

Judged by what each container itself printed and when, against its grant; while it goes on by the node's
report, and at rest by the kubelet, the CDI folder and the agent's checkpoint. The variable
``GPUFLEET_CHURN_S`` says how long.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.agent.checkpoint import Checkpoint
from gpufleet.agent.pod_resources import PodResources
from gpufleet.agent.watchman import read_boot_id
from gpufleet.cli.up import components
from gpufleet.localkube import manifests
from gpufleet.localkube.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.agent_program import agent_folder
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node_agent import await_resource, start_agent
from tests.agent.node_values import SHARE
from tests.localkube.cluster import a_cluster
from tests.localkube.real_node import PODS, a_pod, awaited, logs

CHURN_S = float(os.environ.get("GPUFLEET_CHURN_S", "20"))
PODS_AT_ONCE = 50
GPUS = 8
SHARES_EACH = 10
FRACTIONS = ("0.1", "0.2", "0.25", "0.3", "0.5", "0.75")
SHARING = """
version: gpufleet.io/v1alpha1
pools:
  default:
    - {gpus: rest, fractions: {maxShares: 10}}
"""
NOW = "$(cut -d' ' -f1 /proc/uptime)"
SCRIPT = f"env | grep GPUFLEET; echo BEGAN={NOW}; sleep %d; echo ENDED={NOW}"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
CHURNING = f"{PODS}?labelSelector=churn=yes"
WAIT_S = 120.0


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a real node, our scheduler, and the agent on eight GPUs that are shared by fractions."""
    folder = tmp_path_factory.mktemp("real")
    sharing = folder / "sharing.yaml"
    sharing.write_text(SHARING, encoding="utf-8")
    with a_cluster(folder, "churn", real_node=True, components=components()) as running:
        with running.api() as api:
            manifests.install(api)
        running.furnished()
        for component in components():
            running.await_component(component)
        start_agent(running, f"gpus: [{{model: H100-80GB, count: {GPUS}}}]\n", (f"--config={sharing}",))
        await_resource(running, SHARE, GPUS * SHARES_EACH)
        yield running


class Run(msgspec.Struct, frozen=True):
    """What one pod was granted, and what its container said."""

    name: str
    grant: Object
    printed: dict[str, str]

    @property
    def gpu(self) -> str:
        """The card."""
        return self.printed["GPUFLEET_DEVICES"]

    @property
    def milli(self) -> int:
        """Its part."""
        return int(self.printed["GPUFLEET_GPU_MILLI"])


class Churn:
    """Pods that come and go."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.made = 0
        self.runs: list[Run] = []
        self.most_reported = 0

    def go(self, lasts_s: float) -> None:
        """Replace each pod that ends, for so long, and then let all of them end."""
        until_s = time.monotonic() + lasts_s
        for _ in range(PODS_AT_ONCE):
            self._make()
        left = PODS_AT_ONCE
        while left:
            assert time.monotonic() < until_s + WAIT_S, f"{left} pods do not end: {self._waiting()}"
            for pod in self._pods():
                if pod["status"].get("phase") in {"Succeeded", "Failed"}:
                    self._take(pod)
                    left -= 1
                    if time.monotonic() < until_s:
                        self._make()
                        left += 1
            self._look()
            time.sleep(0.2)

    def _make(self) -> None:
        self.made += 1
        placed = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
        wanted = {"annotations": {"gpufleet.io/gpu-fraction": self.random.choice(FRACTIONS)}}
        script = SCRIPT % self.random.randint(1, 4)
        labels = {"churn": "yes"}
        pod = a_pod(f"churn-{self.made}", script, {"limits": {SHARE: "1"}}, **placed, **wanted, labels=labels)
        with self.cluster.api() as api:
            api.call("POST", PODS, pod)

    def _take(self, pod: Object) -> None:
        """What an ended pod said; then it goes."""
        name = pod["metadata"]["name"]
        assert pod["status"]["phase"] == "Succeeded", pod["status"]
        lines = logs(self.cluster, name).splitlines()
        grant = json.loads(pod["metadata"]["annotations"]["gpufleet.io/grant"])["containers"]["main"]
        assert len(grant) == 1
        self.runs.append(Run(name, grant[0], dict(line.split("=", 1) for line in lines)))
        with self.cluster.api() as api:
            api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def _look(self) -> None:
        """The node never reports more of a card in hands than there is."""
        used: dict[str, int] = {}
        for one in report(self.cluster):
            used[one["device"]] = used.get(one["device"], 0) + one["gpuMilli"]
        self.most_reported = max(self.most_reported, *used.values(), 0)

    def _pods(self) -> list[Object]:
        with self.cluster.api() as api:
            found: list[Object] = api.call("GET", CHURNING)["items"]
        return found

    def _waiting(self) -> list[tuple[str, Object]]:
        return [(pod["metadata"]["name"], pod["status"]) for pod in self._pods()][:5]


def report(cluster: LocalCluster) -> list[Object]:
    """Who holds what, as the node reports it."""
    with cluster.api() as api:
        status, body = api.request("GET", REPORT)
    found: list[Object] = msgspec.json.decode(body)["spec"]["holders"] if status == 200 else []
    return found


def most_at_once(runs: list[Run]) -> int:
    """The largest part of one card that was in hands at one moment, in thousandths, as containers tell it."""
    most = 0
    for gpu in {run.gpu for run in runs}:
        moments = [(float(run.printed["BEGAN"]), 1, run.milli) for run in runs if run.gpu == gpu]
        moments += [(float(run.printed["ENDED"]), 0, -run.milli) for run in runs if run.gpu == gpu]
        used = 0
        for _, _, change in sorted(moments):
            used += change
            most = max(most, used)
    return most


def test_no_part_of_a_card_is_in_two_hands(real: LocalCluster) -> None:
    churn = Churn(real, seed=1)
    churn.go(CHURN_S)
    for run in churn.runs:
        assert run.printed["GPUFLEET_POD"] == f"default/{run.name}"
        assert (run.gpu, run.milli) == (run.grant["id"], run.grant["gpuMilli"])
        assert int(run.printed["GPUFLEET_MEMORY_MIB"]) == run.grant["memoryMiB"]
    assert len(churn.runs) == churn.made > PODS_AT_ONCE
    assert len({run.gpu for run in churn.runs}) == GPUS
    assert 500 < most_at_once(churn.runs) <= 1000
    assert churn.most_reported <= 1000
    check_at_rest(real)


def check_at_rest(cluster: LocalCluster) -> None:
    """I4: with no pod left, nobody has anything, whoever is asked."""
    node = cluster.node
    awaited("nobody is reported", lambda: not report(cluster))
    awaited("no file is left", lambda: not list(node.cdi_dir.glob("gpufleet.io-share-*.json")))
    assert asyncio.run(PodResources(node.pod_resources_socket).list()) == ()
    checkpoint = Checkpoint(agent_folder(cluster.folder) / "checkpoint.json", read_boot_id())
    awaited("no call is open", lambda: not checkpoint.load().state.calls)
    assert not checkpoint.load().problem
