"""Enough GPU is free on the node in sum, but in pieces that are too small or too far apart."""

from gpufleet.engine.node_reasons.amount_words import NEAR
from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.locality import groups, take_gpus_apart
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.room_words import shares_in_use, when_gpus_are_free
from gpufleet.model.phrases import counted, end, listed
from gpufleet.model.shape import Within

BIT = 1 << 12


def finding(case: Case) -> Finding:
    """What is free, and in which pieces."""
    gpu = case.shape.gpu
    best = max(case.near_rooms, key=lambda room: room.free_gpus)
    if gpu.within is not Within.NODE and best.free_gpus >= gpu.count:
        return _free_but_apart(case)
    if gpu.whole:
        why = f"GPUs are shared by others, so that no node has {counted(gpu.count, 'whole GPU')} left"
        return Finding(why, (when_gpus_are_free(best, gpu.count - best.free_gpus, case.unit),))
    found = shares_in_use(case)
    return Finding(f"there is enough in sum, but in pieces: {found.why}", found.way_out)


def _free_but_apart(case: Case) -> Finding:
    """Enough GPUs are free on a node, but not near each other."""
    count, near = case.shape.gpu.count, NEAR[case.shape.gpu.within]
    best = max((one for one in groups(case) if len(one.devices) >= count), key=lambda one: one.free)
    name = best.room.node.name
    free = counted(best.room.free_gpus, case.unit)
    why = f"{free} of {name} are free, but at most {best.free}{near}; it needs {count}"
    ids = {device.id for device in best.devices}
    holders = [one for one in best.room.gpu_holders() if ids.intersection(one.devices)]
    ends = [f"it fits on {name} when {listed(one.name for one in holders)} {end(len(holders))}"]
    return Finding(why, (*(ends if holders else []), take_gpus_apart(case)))


REASON = NodeReason(
    "gpu-fragmented",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="with enough free GPU in sum, but in pieces too small",
    finding=finding,
)
