"""Causes of pods that must have their GPUs near each other: no node has so many together, or not now."""

from collections import defaultdict
from typing import NamedTuple

from gpufleet.engine.tell.explanation import NEAR
from gpufleet.explain.answer import Finding
from gpufleet.explain.case import Case, Explain
from gpufleet.explain.free_room import FreeRoom
from gpufleet.kube import keys
from gpufleet.model.device import Device, Serves
from gpufleet.model.phrases import counted, end, listed
from gpufleet.model.shape import Within

APART = f"leave {keys.GPUS_WITHIN} out, to take GPUs that are apart"


class Together(NamedTuple):
    """GPUs of one node that are near each other, and how many of them are free."""

    room: FreeRoom
    devices: list[Device]
    free: int


def too_far_apart(case: Case) -> Finding:
    """No node has so many GPUs near each other, free or in use."""
    count, near = case.shape.gpu.count, NEAR[case.shape.gpu.within]
    most = max((len(one.devices) for one in _groups(case)), default=0)
    why = f"it asks for {counted(count, 'GPU')}{near}, and no node that would do has more than {most} there"
    smaller = [f"ask for at most {most} in one pod (several pods can be a gang)"] if most > 1 else []
    return Finding("gpu-apart", why, (*smaller, APART))


def free_but_apart(case: Case) -> Finding:
    """Enough GPUs are free on a node, but not near each other."""
    count, near = case.shape.gpu.count, NEAR[case.shape.gpu.within]
    best = max((one for one in _groups(case) if len(one.devices) >= count), key=lambda one: one.free)
    name = best.room.node.name
    free = counted(best.room.free_gpus, "GPU")
    why = f"{free} of {name} are free, but at most {best.free}{near}; it needs {count}"
    ids = {device.id for device in best.devices}
    holders = [entry for entry in best.room.gpu_holders() if ids.intersection(entry.devices)]
    ends = [f"it fits on {name} when {listed(str(one.name) for one in holders)} {end(len(holders))}"]
    return Finding("gpu-fragmented", why, (*(ends if holders else []), APART))


def _groups(case: Case) -> list[Together]:
    """The groups of healthy GPUs of the pod's model that are given out whole, of the nodes that would do."""
    found = []
    for room in case.near_rooms:
        by_place: dict[int | None, list[Device]] = defaultdict(list)
        for device in room.node.devices:
            is_wanted = not case.shape.gpu.models or device.model in case.shape.gpu.models
            if is_wanted and device.healthy and device.serves & Serves.WHOLE:
                by_place[_place(device, case.shape.gpu.within)].append(device)
        found += [Together(room, devices, sum(map(room.is_whole, devices))) for devices in by_place.values()]
    return found


def _place(device: Device, within: Within) -> int | None:
    return device.link_group if within is Within.LINK_GROUP else device.numa_node


CAUSES: dict[str, Explain] = {"gpu-apart": too_far_apart}
