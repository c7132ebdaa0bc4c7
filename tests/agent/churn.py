"""A churn of pods with shares on a real node: fifty at a time come, run for some seconds, and go.

    churn = Churn(cluster, folder, seed=1)
    churn.go_on(40.0); churn.end()
    churn.told()        what each container said of itself, by its pod's UID

Pods end by themselves, or are deleted while they run. Each container writes what it sees into a file of a
folder of the machine, named after its pod's UID, so that its words outlive it. ``churn_judge`` reads them.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin import cdi
from gpufleet.agent.device_plugin.share_files import ShareGiven, read_given
from gpufleet.agent.kubelet.kubelet_checkpoint import read_checkpoint
from gpufleet.agent.kubelet.pod_resources import PodResources
from gpufleet.agent.state.node_state import Held
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.model.grant import GrantedDevice
from tests.agent.audited_node import NodeAudit
from tests.agent.churn_judge import CONTAINER, ContainerRecord, Moment, read_told
from tests.localkube.real_node import PODS, a_pod, awaited

PODS_AT_ONCE = 50
CREATED_AT_ONCE = 10
STEP_S = 0.25
MOMENT_EVERY_S = 1.0
DELETED_PART = 0.02
"""Of the pods that run, at each step."""

END_WAIT_S = 120.0
KUBELET_LEARNS_S = 10.0
"""How long a kubelet that has just started hears of its pods one by one, and lists those it knows."""

REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
SPEC_PREFIX = "gpufleet.io-share-"
STEADY = "steady"

ASKS: tuple[tuple[dict[str, str], int], ...] = (
    ({"gpu-fraction": "0.1"}, 1),
    ({"gpu-fraction": "0.25"}, 1),
    ({"gpu-fraction": "50%"}, 1),
    ({"gpu-fraction": "0.75"}, 1),
    ({"gpu-fraction": "0.3"}, 2),
    ({"gpu-memory": "8Gi"}, 1),
    ({"gpu-memory": "30000"}, 1),
    ({"gpu-fraction": "0.2", "gpu-memory": "20Gi"}, 1),
)
"""What pods ask for, and on how many GPUs."""

SCRIPT = """
exec >>"/told/$POD_UID" 2>&1
now() { cut -d' ' -f1 /proc/uptime; }
trap 'echo "end $(now)"; exit 0' TERM
echo "begin $(now)"
env | grep -E '^(GPUFLEET|NVIDIA)_' | sed 's/^/env /'
echo devices $(cd /dev; ls -d nvidia[0-9]*)
sleep "$RUN_S" &
echo waits
wait $!
echo "end $(now)"
"""

GREEDY = {"NVIDIA_VISIBLE_DEVICES": "all", "GPUFLEET_GPU_MILLI": "1000", "GPUFLEET_DEVICES": "all"}


def now_s() -> float:
    """Seconds since boot, as a container reads them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def waits(told: Path) -> bool:
    """Whether a container has told what it sees and has all its processes: while it starts they change."""
    return told.exists() and "waits" in told.read_text(encoding="utf-8").splitlines()


def why_it_failed(status: Object) -> str:
    """The words for the pod, or else for its container."""
    if "reason" in status:
        return f"{status['reason']}: {status.get('message')}"
    ends = [one["state"].get("terminated", {}) for one in status.get("containerStatuses", [])]
    return "; ".join(f"{end.get('reason')}: {end.get('message')}" for end in ends)


def new_leader(cluster: LocalCluster) -> None:
    """Have the scheduler start anew: it leaves a node alone that turned pods away, for a minute at first."""
    os.kill(cluster.pid("scheduler"), signal.SIGTERM)


class Churn:
    """The pods of one churn; ``folder`` is where their containers tell what they see."""

    def __init__(self, cluster: LocalCluster, folder: Path, seed: int) -> None:
        self.cluster = cluster
        self.folder = folder
        self.random = random.Random(seed)
        self.names: dict[str, str] = {}
        self.grants: dict[str, tuple[GrantedDevice, ...]] = {}
        self.failed: dict[str, str] = {}
        """Why a pod failed, by UID."""
        self.moments: list[Moment] = []
        self.audit = NodeAudit(cluster)
        self._created = 0
        self._deleted: set[str] = set()
        self._next_moment_s = 0.0
        self._lists_all_from_s = 0.0

    def place(self, name: str, asks: dict[str, str], devices: int, run_s: float) -> None:
        """A pod that wants shares of so many GPUs and says in its environment that it has more."""
        pod = a_pod(
            name,
            SCRIPT,
            {"limits": {GPU_SHARE: str(devices)}},
            annotations={f"gpufleet.io/{key}": value for key, value in asks.items()},
            nodeName="",
            schedulerName="gpufleet",
            nodeSelector={"type": "real"},
            volumes=[{"name": "told", "hostPath": {"path": str(self.folder)}}],
        )
        own = {"fieldRef": {"fieldPath": "metadata.uid"}}
        values = {**GREEDY, "RUN_S": f"{run_s:.1f}"}
        pod["spec"]["containers"][0] |= {
            "env": [{"name": "POD_UID", "valueFrom": own}]
            + [{"name": name, "value": value} for name, value in values.items()],
            "volumeMounts": [{"name": "told", "mountPath": "/told"}],
        }
        with self.cluster.api() as api:
            api.call("POST", PODS, pod)

    def go_on(self, for_s: float) -> None:
        """Have pods come and go for so long."""
        until_s = now_s() + for_s
        while now_s() < until_s:
            living = self.step()
            for _ in range(min(PODS_AT_ONCE - living, CREATED_AT_ONCE)):
                asks, devices = self.random.choice(ASKS)
                self._created += 1
                self.place(f"churn-{self._created}", asks, devices, self.random.uniform(3.0, 15.0))
            time.sleep(STEP_S)

    def end(self) -> None:
        """Delete all that is left and return when it is gone."""

        def gone() -> bool:
            for pod in self.look():
                self._delete(pod)
            return not self.look()

        awaited("all pods are gone", gone, lambda: str(self.phases()), END_WAIT_S)

    def restart_kubelet(self) -> None:
        """Kill the kubelet and return when there is another."""
        self.cluster.node.restart_kubelet()
        self._lists_all_from_s = now_s() + KUBELET_LEARNS_S

    def step(self) -> int:
        """Look, delete what ended and some that run; how many pods there are."""
        living = 0
        for pod in self.look():
            if pod["metadata"]["name"] == STEADY:
                continue
            phase = pod["status"].get("phase")
            unlucky = phase == "Running" and self.random.random() < DELETED_PART
            if unlucky or phase in ("Succeeded", "Failed"):
                self._delete(pod)
            living += 1
        if now_s() >= self._next_moment_s:
            self.moments.append(self.moment())
            self._next_moment_s = now_s() + MOMENT_EVERY_S
        return living

    def look(self) -> list[Object]:
        """The pods as they are; what they were granted is written down, and the auditor looks, too."""
        self.audit.look(now_s())
        with self.cluster.api() as api:
            pods: list[Object] = api.call("GET", PODS)["items"]
        for pod in pods:
            uid = pod["metadata"]["uid"]
            self.names[uid] = pod["metadata"]["name"]
            self._note_grant(pod)
            if pod["status"].get("phase") == "Failed" and uid not in self._deleted:
                self.failed[uid] = why_it_failed(pod["status"])
        return pods

    def phases(self) -> Counter[str]:
        """How many pods there are of each phase."""
        return Counter(str(pod["status"].get("phase")) for pod in self.look())

    def moment(self) -> Moment:
        """What kubelet and agent know now."""
        node = self.cluster.node
        from_s = now_s()
        held: tuple[Held, ...] | None = None
        if from_s >= self._lists_all_from_s:
            with contextlib.suppress(KubeletError):
                held = asyncio.run(PodResources(node.pod_resources_socket).list())
        record = read_checkpoint(node.kubelet_socket_dir)
        files = self.files()
        return Moment(from_s, now_s(), held, record, files, self._reported_milli())

    def report(self) -> Object:
        """What the node reports of its GPUs and their holders."""
        with self.cluster.api() as api:
            found: Object = api.call("GET", REPORT)["spec"]
        return found

    def _reported_milli(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in self.report().get("holders", []):
            found[one["device"]] += one.get("gpuMilli", 0)
        return found

    def files(self) -> dict[str, ShareGiven]:
        """What the agent's CDI files say, by their names."""
        folder = self.cluster.node.cdi_dir
        found = {}
        for stem in cdi.spec_names(folder, SPEC_PREFIX):
            spec = cdi.read_spec(folder, stem)
            given = None if spec is None else read_given(spec)
            if given is not None:
                found[stem.removeprefix(SPEC_PREFIX)] = given
        return found

    def told(self) -> dict[str, ContainerRecord]:
        """What the containers said, by pods' UIDs; not those that were killed before they could."""
        texts = {path.name: path.read_text(encoding="utf-8") for path in self.folder.iterdir()}
        return {uid: read_told(text) for uid, text in texts.items() if "devices" in text}

    def _delete(self, pod: Object) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if uid in self._deleted:
            return
        self._deleted.add(uid)
        with self.cluster.api() as api:
            status, answer = api.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 2})
        ended = msgspec.json.decode(answer)
        # It may have been bound since it was looked at, and have started before it ends. An object that goes
        # at once may be answered by a Status alone.
        if status < 300 and ended["kind"] == "Pod":
            self._note_grant(ended)

    def _note_grant(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        text = pod["metadata"].get("annotations", {}).get("gpufleet.io/grant")
        if text is not None and uid not in self.grants:
            grant = read_grant(text)
            assert [one.container for one in grant.containers] == [CONTAINER]
            self.grants[uid] = granted_devices(grant)
