"""Which pod holds which part of which GPU, in figures.

The kubelet knows units: a GPU, an instance, one of several replicas, a slot of gpufleet's shares. What a
unit is worth is in the GPU's sharing plan, and for slots in the pod's grant. The worth is a part of the
whole GPU in each case, so that the parts of all pods can be added up. Units of GPUs that are not ours
are left out.
"""

from collections.abc import Iterator

import msgspec

from gpufleet.agent.state.node_state import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.units.instance_part import instance_part
from gpufleet.agent.units.node_units import REPLICA, device_of
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mode, Mps, TimeSlice, replicas_of
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import GrantKind
from gpufleet.model.identifiers import DeviceId

MODE_NAMES: dict[type[Mode], str] = {
    Exclusive: "exclusive",
    TimeSlice: "time-slice",
    Mps: "mps",
    Mig: "mig",
    Fractions: "fraction",
}


class PodName(msgspec.Struct, frozen=True, order=True):
    """A pod. ``uid`` is empty while it is unknown."""

    namespace: str
    name: str
    uid: str = ""


class HeldPart(msgspec.Struct, frozen=True):
    """What one container holds of one GPU, or of one MIG instance of it.

    ``card_ratio`` is the part of the whole GPU that it stands for, None where it is unknown;
    ``memory_mib`` that part of the memory. ``unit`` is how the kubelet names it, empty for slots.
    ``shared`` says that others may hold the same GPU or instance at the same time.
    """

    pod: PodName
    container: str
    card: DeviceId
    mode: str
    card_ratio: float | None
    memory_mib: int | None
    instance: str | None = None
    unit: str = ""
    shared: bool = False

    @property
    def replica(self) -> str:
        """The number of a replica; empty for all else."""
        return self.unit.partition(REPLICA)[2]


HeldParts = dict[DeviceId, tuple[HeldPart, ...]]
"""What is held of each GPU, by pod, then in the order in which its containers start."""


def held_parts(gpus: NodeGpus, pods: NodePods, holders: Holders) -> HeldParts:
    """All that is held of the node's GPUs; pods that ended hold nothing."""
    owners = {gpu.uuid: gpu for gpu in gpus.gpus}
    units: dict[str, tuple[Gpu, MigFacts | None]] = {
        **{uuid: (gpu, None) for uuid, gpu in owners.items()},
        **{one.uuid: (gpu, one) for gpu in gpus.gpus for one in gpu.facts.mig},
    }
    found: dict[DeviceId, list[tuple[tuple[str, str, int], HeldPart]]] = {}
    for held in holders:
        pod = pods.get(held.pod_uid)
        # The kubelet may go on to list what an ended pod held.
        if pod is not None and pod.finished:
            continue
        for part in (*_by_unit(held, units), *_by_grant(held, pod, owners)):
            found.setdefault(part.card, []).append((_order(held, pod), part))
    return {
        gpu: tuple(part for _, part in sorted(found[gpu], key=lambda one: one[0]))
        for gpu in owners
        if gpu in found
    }


def _order(held: Held, pod: NodePod | None) -> tuple[str, str, int]:
    """By pod, then as its containers start."""
    containers = [] if pod is None else list(pod.requests)
    position = containers.index(held.container) if held.container in containers else 0
    return held.namespace, held.pod, position


def _by_unit(held: Held, units: dict[str, tuple[Gpu, MigFacts | None]]) -> Iterator[HeldPart]:
    """What the units themselves name."""
    name = PodName(held.namespace, held.pod, held.pod_uid)
    for unit in held.units:
        base = device_of(unit)
        # Units of resources that are not ours, or of a GPU that is gone.
        if base not in units:
            continue
        gpu, instance = units[base]
        sharers = _sharers(gpu.plan.mode, instance)
        yield HeldPart(
            name,
            held.container,
            gpu.uuid,
            MODE_NAMES[type(gpu.plan.mode)],
            _card_ratio(gpu, instance),
            _memory_mib(gpu, instance),
            None if instance is None else instance.uuid,
            unit,
            shared=sharers > 1,
        )


def _by_grant(held: Held, pod: NodePod | None, owners: dict[DeviceId, Gpu]) -> Iterator[HeldPart]:
    """What the slots of gpufleet's shares stand for; nothing where the pod's grant does not tell."""
    if held.resource != GPU_SHARE or pod is None or pod.grant is None:
        return
    for part in pod.grant.containers:
        if part.container != held.container:
            continue
        for device in part.devices:
            if device.kind is GrantKind.SHARE and device.id in owners:
                yield HeldPart(
                    PodName(held.namespace, held.pod, held.pod_uid),
                    held.container,
                    device.id,
                    MODE_NAMES[Fractions],
                    device.gpu_milli / WHOLE_GPU_MILLI,
                    device.memory_mib,
                    shared=True,
                )


def _sharers(mode: Mode, instance: MigFacts | None) -> int:
    """How many holders a GPU, or an instance, is made for."""
    if isinstance(mode, Fractions):
        return mode.shares_max
    return replicas_of(mode, "" if instance is None else instance.profile)


def _card_ratio(gpu: Gpu, instance: MigFacts | None) -> float | None:
    mode = gpu.plan.mode
    if instance is not None:
        part = instance_part(gpu, instance)
        return None if part is None else float(part / _sharers(mode, instance))
    if isinstance(mode, Mps):
        return mode.threads_pct / 100
    return 1 / _sharers(mode, None)


def _memory_mib(gpu: Gpu, instance: MigFacts | None) -> int | None:
    mode = gpu.plan.mode
    if isinstance(mode, Mps) and instance is None:
        return mode.memory_mib
    of_all = gpu.usable_mib if instance is None else instance.memory_mib
    return None if of_all is None else of_all // _sharers(mode, instance)
