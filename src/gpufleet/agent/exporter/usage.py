"""How much each pod uses of what it holds, now.

A pod that holds a GPU, or a MIG instance, alone uses all that is used there: the device's own reading is
the pod's. Of a shared one, the driver's list of processes tells, each of which belongs to a pod
(``process_owners``); the device's compute is divided in proportion to how busy each process kept it. Where
processes cannot be seen, a pod's use is absent, and ``Quality`` says so.

A GPU's energy is divided by time. While the GPU computes, its energy is that of the pods whose programs
compute; while it idles, that of its holders, each by the part it holds. The rest belongs to no pod. On a cut
GPU this goes by slices, each with the activity of its instance; where instances tell no activity, by slices
alone.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from gpufleet.agent.exporter.split import capped, proportional
from gpufleet.agent.holders.held_parts import HeldPart, PodName
from gpufleet.agent.state.node_state import Gpu, GpuReading
from gpufleet.agent.units.instance_part import instance_part
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.sample import ProcessUse, Sample

PodOf = Callable[[int], str | None]
"""The UID of the pod to which a process belongs; None for one of the machine's own."""

NOT_OURS = ""
"""Stands for the UID of processes that are no known pod's."""

Amount = TypeVar("Amount", int, float)


class Quality(enum.Enum):
    """From what a pod's figures follow."""

    DEVICE = "device"
    """It holds the device alone, so the device's reading is its own."""
    PROCESS = "process"
    """From the processes on a shared device."""
    SLICES = "slices"
    """From the size of its MIG instance alone."""
    NONE = "none"
    """The use cannot be told apart; the series is absent."""


class PodUse(msgspec.Struct, frozen=True):
    """What one pod holds and uses of one device.

    ``card_ratio`` is the part of the whole GPU that it holds; ``used_ratio`` how much of the device's own
    time it computed; ``energy_ratio`` which part of the GPU's energy is its own at the moment.
    """

    pod: PodName
    mode: str
    card_ratio: float | None
    memory_held_mib: int | None
    memory_used_mib: int | None = None
    used_ratio: float | None = None
    energy_ratio: float | None = None


class DeviceUse(msgspec.Struct, frozen=True):
    """The pods on one GPU, or on one MIG instance of it, and how good their figures are.

    ``alone`` says that it is made for one holder and has one.
    """

    instance: MigFacts | None
    pods: tuple[PodUse, ...]
    alone: bool
    memory: Quality = Quality.NONE
    compute: Quality = Quality.NONE
    energy: Quality = Quality.NONE


def gpu_use(
    gpu: Gpu, reading: GpuReading | None, held: Sequence[HeldPart], pod_of: PodOf | None
) -> tuple[DeviceUse, ...]:
    """The use of a GPU and its instances, as far as pods hold them.

    ``reading`` is None where there is none that is fresh; ``pod_of`` where processes are not looked at.
    """
    reading = reading or GpuReading()
    by_device: dict[str | None, list[HeldPart]] = {}
    for one in held:
        by_device.setdefault(one.instance, []).append(one)
    uses = [_device_use(gpu, uuid, holds, reading, pod_of) for uuid, holds in by_device.items()]
    return _with_energy_by_slices(gpu, reading, uses) if gpu.facts.mig else tuple(uses)


def _device_use(
    gpu: Gpu, uuid: str | None, held: Sequence[HeldPart], reading: GpuReading, pod_of: PodOf | None
) -> DeviceUse:
    instance = None if uuid is None else gpu.instance(uuid)
    sample = reading.sample if uuid is None else reading.instances.get(uuid)
    pods = _merged(held)
    if len(pods) == 1 and not any(one.shared for one in held):
        return _alone(instance, pods[0], sample)
    if pod_of is None or reading.processes is None:
        return DeviceUse(instance, tuple(pods), alone=False)
    here = [(pod_of(one.pid) or NOT_OURS, one) for one in reading.processes if one.mig_uuid == uuid]
    return _by_process(instance, pods, sample, here)


def _merged(held: Sequence[HeldPart]) -> list[PodUse]:
    """What each pod holds of one device, once for each unit, whichever containers hold it."""
    units: dict[PodName, dict[str, HeldPart]] = {}
    for at, one in enumerate(held):
        units.setdefault(one.pod, {}).setdefault(one.unit or f"slot {at}", one)
    return [
        PodUse(
            pod,
            next(iter(own.values())).mode,
            _at_most_all(_sum([one.card_ratio for one in own.values()])),
            _sum([one.memory_mib for one in own.values()]),
        )
        for pod, own in units.items()
    ]


def _alone(instance: MigFacts | None, pod: PodUse, sample: Sample | None) -> DeviceUse:
    memory_mib = None if sample is None else sample.memory.used_mib
    busy = busy_ratio(sample)
    energy = 1.0 if instance is None else None
    use = msgspec.structs.replace(pod, memory_used_mib=memory_mib, used_ratio=busy, energy_ratio=energy)
    return DeviceUse(
        instance,
        (use,),
        alone=True,
        memory=Quality.NONE if memory_mib is None else Quality.DEVICE,
        compute=Quality.NONE if busy is None else Quality.DEVICE,
        energy=Quality.NONE if energy is None else Quality.DEVICE,
    )


def _by_process(
    instance: MigFacts | None,
    pods: Sequence[PodUse],
    sample: Sample | None,
    processes: Sequence[tuple[str, ProcessUse]],
) -> DeviceUse:
    """The use of a shared device; ``processes`` are those on it, each with its pod's UID."""
    memory: dict[str, int | None] = {}
    for uid, process in processes:
        memory[uid] = _sum([memory.get(uid, 0), process.memory_mib])
    compute = _compute(sample, processes)
    # The processes of a pod are found by its UID; without one they cannot be.
    uses = [
        msgspec.structs.replace(
            use,
            memory_used_mib=memory.get(use.pod.uid, 0) if use.pod.uid else None,
            used_ratio=compute.get(use.pod.uid, 0.0) if use.pod.uid and compute is not None else None,
        )
        for use in pods
    ]
    energy = None if instance is not None or compute is None else _energy_by_time(uses, compute)
    if energy is not None:
        uses = [
            msgspec.structs.replace(use, energy_ratio=ratio) for use, ratio in zip(uses, energy, strict=True)
        ]
    return DeviceUse(
        instance,
        tuple(uses),
        alone=False,
        memory=Quality.PROCESS,
        compute=Quality.NONE if compute is None else Quality.PROCESS,
        energy=Quality.NONE if energy is None else Quality.PROCESS,
    )


def _compute(sample: Sample | None, processes: Sequence[tuple[str, ProcessUse]]) -> dict[str, float] | None:
    """The device's compute by pods' UIDs; None where the driver does not tell."""
    weights: dict[str, float] = {}
    for uid, process in processes:
        # The unknown part of one process is missing from all the others'.
        if process.busy_pct is None:
            return None
        weights[uid] = weights.get(uid, 0.0) + process.busy_pct
    busy = busy_ratio(sample)
    if busy is None:
        return capped({uid: weight / 100 for uid, weight in weights.items()})
    return proportional(busy, weights)


def _energy_by_time(pods: Sequence[PodUse], compute: Mapping[str, float]) -> list[float] | None:
    """Which part of the GPU's energy is each pod's; None where one pod's use or part is unknown."""
    held = {
        at: use.card_ratio
        for at, use in enumerate(pods)
        if use.card_ratio is not None and use.used_ratio is not None
    }
    if len(held) < len(pods):
        return None
    idle = max(0.0, 1 - sum(compute.values()))
    parts = capped(held)
    return [(use.used_ratio or 0.0) + idle * parts[at] for at, use in enumerate(pods)]


def _with_energy_by_slices(gpu: Gpu, reading: GpuReading, uses: Sequence[DeviceUse]) -> tuple[DeviceUse, ...]:
    """The uses of a cut GPU, with the energy of instances that one pod holds alone."""
    slices = capped({one.uuid: float(instance_part(gpu, one) or 0) for one in gpu.facts.mig})
    busy = {uuid: busy_ratio(reading.instances.get(uuid)) for uuid in slices}
    computed = [part * ratio for uuid, part in slices.items() if (ratio := busy[uuid]) is not None]
    # Where one instance does not tell its activity, time cannot be divided: slices alone count.
    told = len(computed) == len(slices)
    idle = 1 - sum(computed) if told else 1.0

    def with_energy(use: DeviceUse) -> DeviceUse:
        part = 0.0 if use.instance is None else slices.get(use.instance.uuid, 0.0)
        if use.instance is None or not use.alone or not part:
            return use
        own = part * (busy[use.instance.uuid] or 0.0) if told else 0.0
        pod = msgspec.structs.replace(use.pods[0], energy_ratio=own + idle * part)
        quality = Quality.DEVICE if told else Quality.SLICES
        return msgspec.structs.replace(use, pods=(pod,), energy=quality)

    return tuple(map(with_energy, uses))


def busy_ratio(sample: Sample | None) -> float | None:
    """How much of a device's time went to computing: by its own counters, else as the driver sampled it."""
    if sample is None:
        return None
    ratio = sample.activity.graphics_engine_ratio
    if ratio is None and sample.gpu_busy_pct is not None:
        ratio = sample.gpu_busy_pct / 100
    return None if ratio is None else min(1.0, max(0.0, ratio))


def _at_most_all(ratio: float | None) -> float | None:
    """Clients of MPS may each have more threads than an equal part."""
    return None if ratio is None else min(1.0, ratio)


def _sum(amounts: Sequence[Amount | None]) -> Amount | None:
    """All of them together; unknown where one is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
