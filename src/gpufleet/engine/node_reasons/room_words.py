"""Words on room: which pods would make it by their end, and how much may be asked for until then."""

from collections.abc import Callable

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.free_room import FreeRoom, PlacedPod
from gpufleet.model.device import WHOLE_GPU_MILLI, Device
from gpufleet.model.gpu_unit import GpuUnit
from gpufleet.model.phrases import counted, end, listed

Weigh = Callable[[PlacedPod], int]


def fewest(holders: list[PlacedPod], weight: Weigh, missing: int) -> list[PlacedPod]:
    """The fewest pods that would free so much; none if all together do not."""
    alone = [one for one in holders if weight(one) >= missing]
    if alone:
        return [min(alone, key=weight)]
    chosen: list[PlacedPod] = []
    for one in holders:
        chosen.append(one)
        missing -= weight(one)
        if missing <= 0:
            return chosen
    return []


def when_gpus_are_free(room: FreeRoom, missing: int, unit: GpuUnit) -> str:
    """The pods after whose end a node has so many more free GPUs, which are called ``unit``."""
    enough = fewest(room.gpu_holders(), lambda one: one.gpus, missing)
    if not enough:
        come = "comes" if missing == 1 else "come"
        return f"wait until {counted(missing, f'more {unit}')} of {room.node.name} {come} free"
    names = listed(f"{one.name} ({counted(one.gpus, unit)})" for one in enough)
    note = ", of another scheduler," if any(one.pod.foreign for one in enough) else ""
    return f"it fits on {room.node.name} when {names}{note} {end(len(enough))}"


def when_they_end(room: FreeRoom, weight: Weigh, missing: int) -> str:
    """The pods after whose end a node has so much more of a resource; "" where all together do not do."""
    holders = sorted(room.holders, key=lambda one: (-weight(one), one.name))
    enough = fewest(holders, weight, missing)
    names = listed(one.name for one in enough)
    return f"it fits on {room.node.name} when {names} {end(len(enough))}" if enough else ""


def shares_in_use(case: Case) -> Finding:
    """Too little is left of every GPU for the part that the pod asks for."""
    gpu = case.shape.gpu
    room, device, most = _most_idle(case)
    left = f"the most that a GPU has left is {most / WHOLE_GPU_MILLI:g} ({device.id} on {room.node.name})"
    need = f"it needs {gpu.gpu_milli / WHOLE_GPU_MILLI:g} of {'one' if gpu.count == 1 else gpu.count}"
    users = [one for one in room.gpu_holders() if device.id in one.devices]
    ends = [f"it fits on {room.node.name} when {listed([users[0].name])} ends"] if users else []
    smaller = [f"ask for at most {most / WHOLE_GPU_MILLI:g} of a GPU"] if most else []
    return Finding(f"{left}; {need}", (*ends, *smaller))


def _most_idle(case: Case) -> tuple[FreeRoom, Device, int]:
    idle = [
        (room.idle_milli[device.id], room, device)
        for room in case.near_rooms
        for device in room.node.devices
        if device.healthy
    ]
    most, room, device = max(idle, key=lambda one: one[0])
    return room, device, max(0, most)


def host_room(case: Case, name: str, asked: int, words: Callable[[int], str]) -> Finding:
    """Too little of CPU, memory or storage; ``name`` is that of the field of ``Resources``."""
    largest = max(getattr(room.node.allocatable, name) for room in case.near_rooms)
    on = "with the GPUs for it " if case.shape.gpu.count else ""
    if asked > largest:
        why = f"it needs {words(asked)}, and the largest node {on}has {words(largest)} when it is empty"
        return Finding(why, (f"ask for at most {words(largest)}",))
    best = max(case.near_rooms, key=lambda room: room.amount(name))
    left = max(0, best.amount(name))
    nodes = counted(len(case.near), "node")
    why = f"it needs {words(asked)}; of the {nodes} {on or 'that would do '}".rstrip()
    why += f" {best.node.name} has the most left, {words(left)}"
    ends = when_they_end(best, lambda one: int(getattr(one.pod.shape.resources, name)), asked - left)
    smaller = [f"ask for at most {words(left)}"] if left else []
    return Finding(why, (*smaller, *([ends] if ends else [])))
