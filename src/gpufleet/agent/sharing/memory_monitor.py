"""Finds pods that use more GPU memory than their share, where the driver tells what each process uses.

Nothing but MPS and MIG keeps a process within its share of memory. So what the processes of a pod use on a
GPU is added up and held against what the pod was granted there. A pod that is above it in two samples is
told in NodeDevices, with what it uses, until it is below again. The agent only reports: the scheduler warns
the pod's owner and may evict it.
"""

from collections.abc import Callable, Iterator

import msgspec

from gpufleet.agent.kubelet.process_owners import ProcessOwner
from gpufleet.agent.state.node_state import GpuReading, NodePod, NodePods, Readings
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.model.grant import GrantKind
from gpufleet.model.identifiers import DeviceId

# So many samples in a row above the share are told of; a short peak is not.
SAMPLES_BEFORE = 2
STEP_MIB = 64
"""What is told is rounded up to this, so that a report is not written for each small change."""

WhoseProcess = Callable[[int], ProcessOwner | None]


class Usage(msgspec.Struct, frozen=True):
    """A pod on a GPU: the memory of its share, and what its processes use."""

    pod_uid: str
    device: DeviceId
    share_mib: int
    used_mib: int

    @property
    def above(self) -> bool:
        """Whether it uses more than its share."""
        return self.used_mib > self.share_mib


Offenders = dict[tuple[str, DeviceId], int]
"""The use in MiB of each pod that is above its share, by pod UID and GPU."""


class MemoryMonitor:
    """Keeps ``offenders``: the pods that use more GPU memory than their share."""

    def __init__(
        self,
        readings: Topic[Readings],
        pods: Topic[NodePods],
        whose: WhoseProcess,
        offenders: Topic[Offenders],
    ) -> None:
        self.readings = readings
        self.pods = pods
        self.whose = whose
        self.offenders = offenders
        self._judged: dict[DeviceId, GpuReading] = {}
        self._above: dict[tuple[str, DeviceId], int] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        async for _ in any_change(self.readings, self.pods):
            self.judge_newest()

    def judge_newest(self) -> None:
        """Judge the newest readings, each once."""
        found: Offenders = {}
        present: set[tuple[str, DeviceId]] = set()
        for uuid, reading in self.readings.value.items():
            # Pods change between samples, and a reading that is judged again is no second sample.
            fresh = self._judged.get(uuid) != reading
            self._judged[uuid] = reading
            for usage in usages(uuid, reading, self.pods.value, self.whose):
                key = (usage.pod_uid, uuid)
                if usage.above:
                    present.add(key)
                    self._above[key] = self._above.get(key, 0) + fresh
                    if self._above[key] >= SAMPLES_BEFORE:
                        found[key] = -(-usage.used_mib // STEP_MIB) * STEP_MIB
        self._above = {key: times for key, times in self._above.items() if key in present}
        self.offenders.publish(found)


def usages(uuid: DeviceId, reading: GpuReading, pods: NodePods, whose: WhoseProcess) -> Iterator[Usage]:
    """What each pod with a share of memory on this GPU uses; nothing where the driver does not tell."""
    shares = {uid: share for uid, pod in pods.items() if (share := share_mib(pod, uuid)) is not None}
    if not shares or not reading.processes:
        return
    used: dict[str, int] = {}
    for process in reading.processes:
        if process.memory_mib is None or process.mig_uuid is not None:
            continue
        owner = whose(process.pid)
        if owner is not None and owner.pod_uid in shares:
            used[owner.pod_uid] = used.get(owner.pod_uid, 0) + process.memory_mib
    for uid, used_mib in used.items():
        yield Usage(uid, uuid, shares[uid], used_mib)


def share_mib(pod: NodePod, uuid: DeviceId) -> int | None:
    """The memory that a pod was granted on a GPU as a share; None where it has none there."""
    if pod.grant is None or pod.finished:
        return None
    # Containers that were granted the same share have it together.
    amounts = [
        device.memory_mib
        for container in pod.grant.containers
        for device in container.devices
        if device.id == uuid and device.kind is GrantKind.SHARE
    ]
    known = [amount for amount in amounts if amount is not None]
    return max(known) if known and len(known) == len(amounts) else None
