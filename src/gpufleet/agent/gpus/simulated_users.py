"""The processes on the GPUs of a simulated machine: one for each pod that holds a GPU on the real node.

Each container keeps what it holds busy, unless the pod's labels say otherwise:

    gpufleet.io/simulated-busy-percent: "40"
    gpufleet.io/simulated-memory-mib: "20000"

The process is one of the pod's own on this machine, found by its control group, so that processes are
attributed to pods as on real GPUs.
"""

from collections.abc import Callable
from pathlib import Path

from gpufleet.agent.holders.held_parts import HeldPart, held_parts
from gpufleet.agent.kubelet.process_owners import owner_of
from gpufleet.agent.state.node_state import Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.simulated.machine import User
from gpufleet.devices.sysfs import entries

BUSY_LABEL = "gpufleet.io/simulated-busy-percent"
MEMORY_LABEL = "gpufleet.io/simulated-memory-mib"
BUSY_PCT = 90
MEMORY_PCT = 80
"""How much of what it holds a container uses."""

POLL_EVERY_S = 9.0
"""How often to look for the pods' processes though the pods are the same: containers start and restart."""

PID_FIRST = 10_000_000
"""Pids of pods without a process on this machine: above all that Linux gives."""


class SimulatedUsers:
    """Called by the machine, from its threads, whenever it is asked for readings."""

    def __init__(
        self,
        gpus: Topic[NodeGpus],
        pods: Topic[NodePods],
        holders: Topic[Holders],
        clock_s: Callable[[], float],
        proc: Path = Path("/proc"),
    ) -> None:
        self._gpus = gpus
        self._pods = pods
        self._holders = holders
        self._proc = proc
        self._clock_s = clock_s
        self._looked_at_s = 0.0
        self._pids: dict[str, int] = {}
        """A process of each pod, by UID."""

    def __call__(self) -> list[User]:
        """The processes on each GPU now."""
        pods = self._pods.value
        held = [
            one for its in held_parts(self._gpus.value, pods, self._holders.value).values() for one in its
        ]
        uids = {one.pod.uid for one in held}
        if uids != self._pids.keys() or self._clock_s() - self._looked_at_s > POLL_EVERY_S:
            self._find_processes(uids)
        return [_user(self._pids[one.pod.uid], one, pods.get(one.pod.uid)) for one in held]

    def _find_processes(self, uids: set[str]) -> None:
        """A process of each pod; the youngest, so not its sandbox's."""
        found = {uid: PID_FIRST + number for number, uid in enumerate(sorted(uids))}
        for folder in entries(self._proc, "[0-9]+"):
            owner = owner_of(int(folder.name), self._proc)
            if owner is not None and owner.pod_uid in uids:
                found[owner.pod_uid] = int(folder.name)
        self._pids, self._looked_at_s = found, self._clock_s()


def _user(pid: int, held: HeldPart, pod: NodePod | None) -> User:
    labels = {} if pod is None else pod.labels
    ratio = 1.0 if held.instance is not None else held.card_ratio or 0.0
    busy_pct = _number(labels.get(BUSY_LABEL), int(BUSY_PCT * ratio))
    memory_mib = _number(labels.get(MEMORY_LABEL), (held.memory_mib or 0) * MEMORY_PCT // 100)
    return User(pid, held.card, busy_pct, memory_mib, held.instance)


def _number(text: str | None, otherwise: int) -> int:
    """What a label says; where it says no number, what follows from what is held."""
    # The length too: Python refuses to read numbers of more than 4,300 digits.
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else otherwise
