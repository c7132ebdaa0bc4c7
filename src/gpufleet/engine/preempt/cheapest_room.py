"""Which single pods make room for a gang of equal pods at the least cost, by counting whole GPUs.

On each node the cheapest pods are found that make room for one member, for two, and so on. Of all nodes
those are taken where a member costs the least, along the lower convex hulls of these costs; for the last
members, where a node may give more than is needed, every combination of nodes is compared (a multiple-choice
knapsack: Sinha and Zoltners, Operations Research 27, 1979).

Costs are those of ``candidates.cost_of`` for a gang, added up: pods and work lost, how many pods are spared,
rights of queues, priorities, the rest of the work lost. Quota, justice and what else may keep a gang off a
node are not looked at: the caller proves the set.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from operator import mul
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.engine.preempt.candidates import Unit
from gpufleet.engine.preempt.leaving import FAR_TOO_MUCH, GPU, Leaving
from gpufleet.model.device import WHOLE_GPU_MILLI

NODES_MAX = 256
"""Among so many nodes at most: those whose pods cost the least for each GPU that they hold."""
STEPS_MAX = 40_000
"""So many combinations of a node and a number of members are compared for the last members."""


class Option(NamedTuple):
    """So many more members have room on a node once these pods are gone."""

    members: int
    cost: int
    units: tuple[Unit, ...]


class Held(NamedTuple):
    """A single pod and how many GPUs it holds."""

    gpus: int
    unit: Unit


class Choice(NamedTuple):
    """What options cost together: the last of them by its node and place, and those before it."""

    cost: int
    step: "tuple[int, int, Choice] | None"


NOTHING = Option(0, 0, ())
Weights = tuple[int, ...]


def cheapest_room(
    state: EngineState, workload: Workload, leaving: Leaving, units: Iterable[Unit]
) -> list[Unit]:
    """Of single pods those that make room for a gang; none if it has room, or its pods are not equal.

    None, too, if they ask for anything but whole GPUs, or all of these would not do.
    """
    tables = state.store.tables
    shapes = {int(tables.pods[layout.POD_SHAPE, row]) for row in workload.rows}
    shape = next(iter(shapes))
    gpus = int(tables.shapes[layout.SHAPE_GPU_COUNT, shape])
    if len(shapes) > 1 or not gpus or tables.shapes[layout.SHAPE_GPU_MILLI, shape] != WHOLE_GPU_MILLI:
        return []
    by_node: dict[int, list[Held]] = {}
    for unit in units:
        count = whole_gpus_of(state, unit)
        if count:
            by_node.setdefault(int(tables.pods[layout.POD_NODE, unit.rows[0]]), []).append(Held(count, unit))
    short = leaving.left.shortage(shape)
    free = np.where(short[:, GPU] < FAR_TOO_MUCH, np.maximum(0, gpus - short[:, GPU]), 0)
    # Where host resources are short and no candidate runs, free GPUs serve no member.
    free[(short[:, 1:] > 0).any(axis=1) & ~np.isin(np.arange(len(free)), list(by_node))] = 0
    missing = workload.least - int((free // gpus).sum())
    if missing <= 0:
        return []
    suited = {node: held for node, held in by_node.items() if short[node, GPU] < FAR_TOO_MUCH}
    weights = weights_of([one.unit for held in suited.values() for one in held])
    nodes = sorted(suited, key=lambda node: cost_of_a_gpu(suited[node]))[:NODES_MAX]
    options = [options_on(suited[node], int(free[node]), gpus, missing, weights) for node in nodes]
    return list(chosen_from([[NOTHING, *one] for one in options if one], missing))


def whole_gpus_of(state: EngineState, unit: Unit) -> int:
    """How many whole GPUs a single pod holds."""
    tables = state.store.tables
    shape = tables.pods[layout.POD_SHAPE, unit.rows[0]]
    if tables.shapes[layout.SHAPE_GPU_MILLI, shape] != WHOLE_GPU_MILLI:
        return 0
    return int(tables.shapes[layout.SHAPE_GPU_COUNT, shape])


def cost_of_a_gpu(held: Sequence[Held]) -> Fraction:
    """What these pods and the work lost with them count for each GPU that they hold, in the mean."""
    return Fraction(sum(one.unit.pods_and_lost for one in held), sum(one.gpus for one in held))


def weights_of(units: Iterable[Unit]) -> Weights:
    """Weights with which a sum of costs is less where the first cost that differs is less."""
    columns = list(zip(*map(costs_of, units), strict=True))
    found = [1]
    for column in reversed(columns[1:]):
        # Larger than any difference that the later costs can make together.
        found.append(found[-1] * (sum(column) - min(0, *column) * len(column) + 1))
    return tuple(reversed(found))


def costs_of(unit: Unit) -> tuple[int, ...]:
    """The costs of one pod, in the order of ``candidates.cost_of`` for a gang."""
    return unit.pods_and_lost, unit.spared, unit.right, unit.priority, unit.lost


def options_on(held: Sequence[Held], free: int, gpus: int, missing: int, weights: Weights) -> list[Option]:
    """For one member, two and more, the cheapest of these pods of one node that make room for them.

    A knapsack of single pods: ``best`` has by number of GPUs the cheapest pods that hold as many or more.
    """
    there = free // gpus
    most = min(missing, (free + sum(one.gpus for one in held)) // gpus - there)
    if most <= 0:
        return []
    best: list[Option | None] = [NOTHING, *[None] * ((there + most) * gpus - free)]
    for one in held:
        cost = sum(map(mul, weights, costs_of(one.unit)))
        # Downwards, so that each pod is taken once.
        for needed in range(len(best) - 1, 0, -1):
            before, known = best[max(0, needed - one.gpus)], best[needed]
            if before is not None and (known is None or before.cost + cost < known.cost):
                best[needed] = Option(0, before.cost + cost, (*before.units, one.unit))
    found = ((more, best[(there + more) * gpus - free]) for more in range(1, most + 1))
    return [option._replace(members=more) for more, option in found if option is not None]


def chosen_from(nodes: Sequence[Sequence[Option]], missing: int) -> Iterator[Unit]:
    """The pods of one option for each node that make room for as many members as are missing."""
    # As many members are left to the exact comparison as its steps allow.
    last = STEPS_MAX // max(1, sum(map(len, nodes)))
    taken = [0] * len(nodes)
    left = missing
    # On a convex hull the next member of a node never costs less than the one before, so the steps of all
    # nodes may be taken in the order of their cost.
    for _, number, place in sorted(hull_steps(nodes)):
        more = nodes[number][place].members - nodes[number][taken[number]].members
        if left - more < last:
            break
        taken[number], left = place, left - more
    for number, place in cheapest_of(nodes, taken, left).items():
        taken[number] = place
    if sum(options[place].members for options, place in zip(nodes, taken, strict=True)) >= missing:
        for options, place in zip(nodes, taken, strict=True):
            yield from options[place].units


def hull_steps(nodes: Sequence[Sequence[Option]]) -> Iterator[tuple[Fraction, int, int]]:
    """The lower convex hull of each node: what a member more costs, which node, which option."""
    for number, options in enumerate(nodes):
        at = 0
        while at < len(options) - 1:
            slope, place = min(
                (Fraction(options[to].cost - options[at].cost, options[to].members - options[at].members), to)
                for to in range(at + 1, len(options))
            )
            yield slope, number, place
            at = place


def cheapest_of(nodes: Sequence[Sequence[Option]], taken: Sequence[int], left: int) -> dict[int, int]:
    """Which options to take instead of those taken, so that as many members more have room as are left.

    ``best`` has by number of members the cost of the cheapest options, and these.
    """
    best: list[Choice | None] = [Choice(0, None), *[None] * left]
    for number, (options, at) in enumerate(zip(nodes, taken, strict=True)):
        # A copy: each node gives one option, so no sum may build on another option of the same node.
        before = list(best)
        for place in range(at + 1, len(options)):
            more, cost = options[place].members - options[at].members, options[place].cost - options[at].cost
            for needed in range(1, left + 1):
                rest, known = before[max(0, needed - more)], best[needed]
                if rest is not None and (known is None or rest.cost + cost < known.cost):
                    best[needed] = Choice(rest.cost + cost, (number, place, rest))
    found: dict[int, int] = {}
    choice = best[left]
    while choice is not None and choice.step is not None:
        number, place, choice = choice.step
        found[number] = place
    return found
