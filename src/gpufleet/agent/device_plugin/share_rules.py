"""Whether a container may get its share now: the rules, without any world around them.

The scheduler's grant is believed within what the GPU can hold. Rivals are those that were given a part
of the GPU already, and grants of a newer leader: an older leader's bind may have been on its way
when the newer one placed something there, and then the newer one counts. Two shares of one leader
that are too much together are served in the order in which they come, and the second is refused.
"""

from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.agent.state.node_state import Gpu, Held, NodeGpus, NodePod
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.units.node_units import device_of
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Fractions
from gpufleet.kube import keys
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId


class Rival(msgspec.Struct, frozen=True):
    """Another pod's part of a GPU; ``given`` says that it was handed out already."""

    pod: str
    part: GrantedDevice
    epoch: int
    given: bool


def granted_parts(pod: NodePod, container: str, slots: int) -> tuple[GrantedDevice, ...]:
    """The shares that this container was granted, one for each slot. Raises RefusedError."""
    if pod.grant is None and pod.grant_problem:
        raise RefusedError(f"the grant of {pod.title} cannot be read: {pod.grant_problem}")
    if pod.grant is None:
        raise RefusedError(
            f"{pod.title} has a slot for a share and no grant; shares are given to pods that gpufleet's "
            "scheduler placed: set schedulerName: gpufleet"
        )
    parts = next((one.devices for one in pod.grant.containers if one.container == container), ())
    if not parts:
        raise RefusedError(f"the grant of {pod.title} has nothing for container {container}")
    if any(part.kind is not GrantKind.SHARE for part in parts):
        raise RefusedError(f"the grant of {pod.title} gives container {container} no share of a GPU")
    # A slot is a share: with another number the kubelet's count and the scheduler's would drift apart.
    if len(parts) != slots:
        raise RefusedError(
            f"container {container} of {pod.title} has {slots} slots, and its grant names {len(parts)} shares"
        )
    return parts


def has_started_share(pod: NodePod) -> bool:
    """Whether a container that was granted shares has started, and so was given them."""
    return pod.grant is not None and any(
        one.container in pod.started and any(part.kind is GrantKind.SHARE for part in one.devices)
        for one in pod.grant.containers
    )


def check_parts(
    pod: NodePod, parts: Sequence[GrantedDevice], gpus: NodeGpus, rivals: Iterable[Rival]
) -> tuple[Gpu, ...]:
    """The GPUs of these shares, each in service and with room for its share. Raises RefusedError."""
    epoch = 0 if pod.grant is None else pod.grant.epoch
    rivals = tuple(rivals)
    return tuple(
        _checked(part, epoch, gpus, [one for one in rivals if one.part.id == part.id]) for part in parts
    )


def check_not_held(
    pod: NodePod, parts: Sequence[GrantedDevice], gpus: NodeGpus, holders: Iterable[Held]
) -> None:
    """Raises RefusedError where another pod has one of these GPUs, or a part of it, as something else."""
    granted = {part.id for part in parts}
    for held in holders:
        # A holder of which the uid is not known is told by its namespace and name.
        own = held.pod_uid == pod.uid or (not held.pod_uid and held.title == pod.title)
        if held.resource == keys.GPU_SHARE or own:
            continue
        for unit in held.units:
            gpu = _card(device_of(unit), gpus)
            if gpu in granted:
                raise RefusedError(
                    f"the GPU {gpu} of this grant is held by container {held.container} of {held.title} as "
                    f"{held.resource} ({unit}); shares of it are given when that pod has ended"
                )


def _card(device: str, gpus: NodeGpus) -> str:
    """The GPU of an instance; of anything else itself."""
    return next((gpu.uuid for gpu in gpus.gpus if gpu.instance(device) is not None), device)


def _checked(part: GrantedDevice, epoch: int, gpus: NodeGpus, rivals: Sequence[Rival]) -> Gpu:
    gpu = in_service(part.id, gpus)
    # What the same leader or an earlier one granted was counted when this grant was made; what a newer one
    # granted goes before it.
    counted = [one for one in rivals if one.given or one.epoch > epoch]
    milli = part.gpu_milli + sum(one.part.gpu_milli for one in counted)
    memory_mib = (part.memory_mib or 0) + sum(one.part.memory_mib or 0 for one in counted)
    usable_mib = gpu.usable_mib
    if milli <= WHOLE_GPU_MILLI and (usable_mib is None or memory_mib <= usable_mib):
        return gpu
    newer = [one for one in counted if not one.given]
    held = ", ".join(sorted({one.pod for one in newer or counted}))
    why = "was granted since, by a newer leader," if newer else "is given"
    raise RefusedError(f"this share of GPU {part.id} does not fit beside what {why} to {held}")


def in_service(device: DeviceId, gpus: NodeGpus) -> Gpu:
    """The GPU, if shares of it may be used now. Raises RefusedError."""
    gpu = gpus.gpu(device)
    if gpu is None:
        raise RefusedError(f"the GPU {device} of this grant is not on this node now")
    if not isinstance(gpu.plan.mode, Fractions):
        raise RefusedError(f"the GPU {device} of this grant is not offered in shares on this node")
    if gpu.health is not Verdict.HEALTHY:
        raise RefusedError(f"the GPU {device} of this grant is {gpu.health.value}: {gpu.reason}")
    return gpu
