"""In what order a recorded workload arrives.

``saturating`` follows the protocol of the published experiments on the openb trace: shuffle the
tasks, then add clones (or take tasks away) until they ask for ``load`` times the GPUs there are.
What arrives is a *unit*: one task, or all members of a gang. ``saturate`` feeds them to the engine.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName
from gpufleet.model.node import Node
from gpufleet.replay.trace import Trace
from gpufleet.replay.trace_tasks import TaskRecord

Item = TypeVar("Item")


class Unit(msgspec.Struct, frozen=True):
    """What arrives at once: a task, or a gang with its members."""

    tasks: tuple[TaskRecord, ...]
    gang: Gang | None = None

    @property
    def gpu_milli(self) -> int:
        """Thousandths of a GPU asked for by all tasks."""
        return sum(task.shape.gpu.total_milli for task in self.tasks)

    @property
    def largest_device_milli(self) -> int:
        """The largest part of one device that a task asks for."""
        return max(task.shape.gpu.gpu_milli for task in self.tasks)

    def clone(self, number: int) -> "Unit":
        """The same under names that nothing else has."""
        gang = self.gang
        if gang is not None:
            gang = msgspec.structs.replace(gang, name=GangName(f"{gang.name}+{number}"))
        tasks = tuple(
            msgspec.structs.replace(
                task, name=f"{task.name}+{number}", gang=None if gang is None else gang.name
            )
            for task in self.tasks
        )
        return Unit(tasks, gang)


def units_of(trace: Trace) -> list[Unit]:
    """The trace's tasks as units, in the order of the file (a gang at its first member)."""
    gangs = {gang.name: gang for gang in trace.gangs}
    members: dict[GangName, list[TaskRecord]] = {}
    for task in trace.tasks:
        if task.gang is not None:
            members.setdefault(task.gang, []).append(task)
    units = []
    for task in trace.tasks:
        if task.gang is None:
            units.append(Unit((task,)))
        elif members[task.gang][0] is task:
            units.append(Unit(tuple(members[task.gang]), gangs[task.gang]))
    return units


def gpu_capacity_milli(nodes: Sequence[Node]) -> int:
    """Thousandths of a GPU that the nodes have."""
    return 1000 * sum(len(node.devices) for node in nodes)


def saturating(
    units: Sequence[Unit],
    capacity_milli: int,
    load: float,
    source: random.Random,
    *,
    shuffled: bool = True,
) -> list[Unit]:
    """The units shuffled (or in the order given) and brought to ``load`` times the capacity.

    Clones are drawn from the original list with replacement; the first draw whose part of one
    device would pass the target ends it. A list that asks for more loses units drawn at random.
    """
    originals = sorted(units, key=lambda unit: unit.tasks[0].name)
    arrivals = list(originals) if shuffled else list(units)
    if shuffled:
        shuffle(arrivals, source)
    target_milli = round(load * capacity_milli)
    asked_milli = sum(unit.gpu_milli for unit in arrivals)
    if not any(unit.gpu_milli for unit in originals):
        return arrivals
    while asked_milli > target_milli:
        asked_milli -= arrivals.pop(below(len(arrivals), source)).gpu_milli
    if len(arrivals) < len(originals):
        return arrivals
    number = 0
    while True:
        drawn = originals[below(len(originals), source)]
        if asked_milli + drawn.largest_device_milli > target_milli:
            return arrivals
        number += 1
        asked_milli += drawn.gpu_milli
        arrivals.append(drawn.clone(number))


def below(bound: int, source: random.Random) -> int:
    """A whole number in 0..bound-1; from ``random()``, whose stream no Python version changes."""
    return int(source.random() * bound)


def shuffle(items: list[Item], source: random.Random) -> None:
    """Fisher and Yates, in place."""
    for last in range(len(items) - 1, 0, -1):
        other = below(last + 1, source)
        items[last], items[other] = items[other], items[last]
