"""Who is on the GPUs of a simulated machine: the pods that hold them on the real node.

Each container that holds a device keeps it busy, unless the pod's labels say otherwise:

    gpufleet.io/simulated-busy-percent: "40"
    gpufleet.io/simulated-memory-mib: "20000"

A share is kept busy by as much as it was granted. The process is one of the pod's own on this machine, found
by its control group, so that whoever attributes processes to pods has the same to do as on real cards.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.agent.known import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.topic import Topic
from gpufleet.devices.sharing.plan import Mps, TimeSlice
from gpufleet.devices.simulated.machine import User
from gpufleet.devices.sysfs import entries
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId

BUSY_LABEL = "gpufleet.io/simulated-busy-percent"
MEMORY_LABEL = "gpufleet.io/simulated-memory-mib"
BUSY_PCT = 90
MEMORY_PCT = 80
"""How much of what it holds a container uses."""

PID_FIRST = 10_000_000
"""Pids of pods without a process on this machine: above all that Linux gives."""


class Part(msgspec.Struct, frozen=True):
    """A GPU, an instance of it or a share of it, that one container holds."""

    uuid: DeviceId
    mig_uuid: str | None = None
    gpu_milli: int = WHOLE_GPU_MILLI
    memory_mib: int = 0


class SimulatedUsers:
    """Called by the machine, from its threads, whenever it is asked for readings."""

    def __init__(
        self,
        gpus: Topic[NodeGpus],
        pods: Topic[NodePods],
        holders: Topic[Holders],
        proc: Path = Path("/proc"),
    ) -> None:
        self._gpus = gpus
        self._pods = pods
        self._holders = holders
        self._proc = proc
        self._pids: dict[str, int] = {}
        """A process of each pod, by UID."""

    def __call__(self) -> list[User]:
        """Who is on which GPU now."""
        gpus, pods, holders = self._gpus.value, self._pods.value, self._holders.value
        holding = {held.pod_uid for held in holders}
        if holding - self._pids.keys() - {""}:
            self._find_processes(holding)
        found = []
        for number, held in enumerate(holders):
            pod = pods.get(held.pod_uid)
            pid = self._pids.get(held.pod_uid, PID_FIRST + number)
            found += [_user(pid, part, pod) for part in _parts(held, pod, gpus)]
        return found

    def _find_processes(self, wanted: set[str]) -> None:
        """Look through the machine's processes for one of each pod; the innermost, so not its sandbox's."""
        found: dict[str, int] = {}
        for folder in entries(self._proc, "[0-9]+"):
            try:
                group = (folder / "cgroup").read_text(encoding="ascii", errors="replace")
            except OSError:
                continue
            for uid in wanted:
                if uid and (uid in group or uid.replace("-", "_") in group):
                    found[uid] = int(folder.name)
        self._pids = found


def _user(pid: int, part: Part, pod: NodePod | None) -> User:
    labels = {} if pod is None else pod.labels
    busy_pct = _number(labels.get(BUSY_LABEL), BUSY_PCT * part.gpu_milli // WHOLE_GPU_MILLI)
    memory_mib = _number(labels.get(MEMORY_LABEL), part.memory_mib * MEMORY_PCT // 100)
    return User(pid, part.uuid, busy_pct, memory_mib, part.mig_uuid)


def _parts(held: Held, pod: NodePod | None, gpus: NodeGpus) -> Iterator[Part]:
    """What a container holds."""
    if held.resource == GPU_SHARE:
        for device in _granted(held, pod):
            yield Part(device.id, None, device.gpu_milli, device.memory_mib or 0)
        return
    for unit in held.units:
        name = unit.partition("::")[0]
        for gpu in gpus.gpus:
            if gpu.uuid == name:
                yield _whole(gpu)
            elif (instance := gpu.instance(name)) is not None:
                yield Part(gpu.uuid, name, memory_mib=instance.memory_mib or 0)


def _whole(gpu: Gpu) -> Part:
    """A GPU, or one of its replicas: those who take turns share what there is."""
    usable_mib = gpu.usable_mib or 0
    match gpu.plan.mode:
        case TimeSlice(parts) | Mps(parts):
            return Part(gpu.uuid, None, WHOLE_GPU_MILLI // parts, usable_mib // parts)
        case _:
            return Part(gpu.uuid, memory_mib=usable_mib)


def _granted(held: Held, pod: NodePod | None) -> tuple[GrantedDevice, ...]:
    """The shares of a container, as it was granted them."""
    if pod is None or pod.grant is None:
        return ()
    mine = (one.devices for one in pod.grant.containers if one.container == held.container)
    return tuple(device for devices in mine for device in devices if device.kind is GrantKind.SHARE)


def _number(text: str | None, otherwise: int) -> int:
    """What a label says; where it says no number, what follows from what is held."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else otherwise
