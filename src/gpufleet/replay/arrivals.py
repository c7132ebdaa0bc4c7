"""In what order a recorded workload arrives, and in what order nodes win ties.

``saturating`` follows the protocol of the published experiments on the openb trace: shuffle the
tasks, then add clones (or take tasks away) until they ask for ``load`` times the GPUs there are.
``ranked`` then orders the nodes. Both draw the same random numbers in the same order as the published
runs, so that a seed means the same tasks and nodes here and there. What arrives is a *unit*: one task,
or all members of a gang. ``saturate`` feeds them to the engine.
"""

from collections.abc import Sequence

import msgspec

from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName
from gpufleet.model.node import Node
from gpufleet.replay.go_random import GoRandom
from gpufleet.replay.trace import Trace
from gpufleet.replay.trace_tasks import TaskRecord

# the published runs put one number into their log before they shuffle
DRAWS_BEFORE_TASKS = 1
# and their ten watches of the cluster draw their time-outs before nodes are ranked
DRAWS_BEFORE_NODES = 10


class ArrivalUnit(msgspec.Struct, frozen=True):
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

    def clone(self, ending: str) -> "ArrivalUnit":
        """A copy of the unit with this ending behind every name."""
        gang = self.gang
        if gang is not None:
            gang = msgspec.structs.replace(gang, name=GangName(gang.name + ending))
        tasks = tuple(
            msgspec.structs.replace(task, name=task.name + ending, gang=None if gang is None else gang.name)
            for task in self.tasks
        )
        return ArrivalUnit(tasks, gang)


def units_of(trace: Trace) -> list[ArrivalUnit]:
    """The trace's tasks as units, in the order of the file (a gang at its first member)."""
    gangs = {gang.name: gang for gang in trace.gangs}
    members: dict[GangName, list[TaskRecord]] = {}
    for task in trace.tasks:
        if task.gang is not None:
            members.setdefault(task.gang, []).append(task)
    units = []
    for task in trace.tasks:
        if task.gang is None:
            units.append(ArrivalUnit((task,)))
        elif members[task.gang][0] is task:
            units.append(ArrivalUnit(tuple(members[task.gang]), gangs[task.gang]))
    return units


def gpu_capacity_milli(nodes: Sequence[Node]) -> int:
    """Thousandths of a GPU that the nodes have."""
    return 1000 * sum(len(node.devices) for node in nodes)


def saturating(
    units: Sequence[ArrivalUnit],
    capacity_milli: int,
    load: float,
    source: GoRandom,
    *,
    shuffled: bool = True,
) -> list[ArrivalUnit]:
    """The units shuffled (or in the order given) and brought to ``load`` times the capacity.

    Clones are drawn from the original list with replacement; the first draw with a part of one device that
    would pass the target ends it. A list that asks for more loses units drawn at random.
    """
    # As the published runs list them: what a seed makes of a list depends on its order.
    originals = sorted(units, key=lambda unit: unit.tasks[0].name)
    arrivals = list(originals) if shuffled else list(units)
    if shuffled:
        source.shuffle(arrivals)
    target_milli = round(load * capacity_milli)
    asked_milli = sum(unit.gpu_milli for unit in arrivals)
    # Without GPUs no number of clones would reach the target.
    if not any(unit.gpu_milli for unit in originals):
        return arrivals
    while asked_milli > target_milli:
        asked_milli -= arrivals.pop(source.below(len(arrivals))).gpu_milli
    # A list that asked for too much is not filled up with clones again.
    if asked_milli == target_milli or len(arrivals) < len(originals):
        return arrivals
    mark = mark_of_clones(originals)
    number = 0
    while True:
        drawn = originals[source.below(len(originals))]
        if asked_milli + drawn.largest_device_milli > target_milli:
            return arrivals
        number += 1
        asked_milli += drawn.gpu_milli
        arrivals.append(drawn.clone(f"{mark}{number}"))


def mark_of_clones(units: Sequence[ArrivalUnit]) -> str:
    """What stands before a clone's number: "+", or as many of it as no name of the list has."""
    names = [task.name for unit in units for task in unit.tasks]
    names += [unit.gang.name for unit in units if unit.gang is not None]
    mark = "+"
    while any(mark in name for name in names):
        mark += "+"
    return mark


def source_of(seed: int) -> GoRandom:
    """The random numbers of one run, from where the tasks' order is drawn."""
    source = GoRandom(seed)
    for _ in range(DRAWS_BEFORE_TASKS):
        source.int63()
    return source


def ranked(nodes: Sequence[Node], source: GoRandom) -> list[Node]:
    """The nodes in random order; where nodes are equally good, the first one wins."""
    for _ in range(DRAWS_BEFORE_NODES):
        source.float64()
    by_name = sorted(nodes, key=lambda node: node.name)
    ranks = source.permutation(len(by_name))
    return [node for _, node in sorted(zip(ranks, by_name, strict=True), key=lambda pair: pair[0])]
