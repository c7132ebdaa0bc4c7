"""Words on GPUs that have to be near each other: on one NUMA node, or on one fast link."""

from collections import defaultdict
from typing import NamedTuple

from gpufleet.engine.node_reasons.case import Case
from gpufleet.engine.node_reasons.free_room import FreeRoom
from gpufleet.model.device import Device, Serves
from gpufleet.model.shape import Within


class Together(NamedTuple):
    """GPUs of one node that are near each other, and how many of them are free."""

    room: FreeRoom
    devices: list[Device]
    free: int


def take_gpus_apart(case: Case) -> str:
    """The way out of asking for GPUs that are near each other."""
    name = case.details.names.gpus_within
    return f"leave {name} out, to take GPUs that are apart" if name else "take GPUs that are apart"


def groups(case: Case) -> list[Together]:
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
