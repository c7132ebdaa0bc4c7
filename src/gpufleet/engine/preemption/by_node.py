"""The cheapest victims for one pod that lacks nothing but room, node by node.

Cheapest is, in this order: the lowest highest priority among the victims, then the fewest of them, then
the least work lost. For every node a lower bound of all three follows from sums over its candidates,
worked out for the whole fleet at once; nodes are then examined in the order of their bounds, until the
next bound is no better than what was found (branch and bound). On a node, the lowest priority is exact;
so is the number, as long as there are few enough sets to try them all.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from gpufleet.engine import layout
from gpufleet.engine.books import Books
from gpufleet.engine.preemption.candidates import Unit
from gpufleet.engine.preemption.proof import Placements, Proof
from gpufleet.engine.tables import Int64Array
from gpufleet.model.device import WHOLE_GPU_MILLI

PROOFS_MAX = 4096
"""A search that needs more proofs than this is cut short, and says so."""
SETS_A_NODE_MAX = 300
"""On a node with more sets than this, victims are taken off one by one instead."""
NEVER = 1 << 60


class Bound(NamedTuple):
    """What victims on a node cost at least."""

    priority: int
    pods: int
    lost: int
    node: int


class Victims(NamedTuple):
    """Proven victims on one node, and where the pod goes."""

    priority: int
    pods: int
    lost: int
    rows: tuple[int, ...]
    placements: Placements


class ByNode:
    """A search for one pod. ``departing`` are rows of pods that end anyway."""

    def __init__(self, proof: Proof, books: Books, departing: list[int], units: list[Unit]) -> None:
        self.proof = proof
        self.books = books
        self.shape = int(books.store.tables.pods[layout.POD_SHAPE, proof.asking.row])
        self.cut = False
        self.leaving_on: dict[int, list[int]] = {}
        self.units_on: dict[int, list[Unit]] = {}
        for row in departing:
            self.leaving_on.setdefault(self._node(row), []).append(row)
        for unit in units:
            self.units_on.setdefault(self._node(unit.rows[0]), []).append(unit)

    def _node(self, row: int) -> int:
        return int(self.books.store.tables.pods[layout.POD_NODE, row])

    def find(self) -> Victims | None:
        """The cheapest victims, None if there are none (or ``cut`` is set)."""
        best: Victims | None = None
        for bound in self._bounds():
            if best is not None and bound[:3] >= best[:3]:
                break
            if self.proof.tries > PROOFS_MAX:
                self.cut = best is None
                break
            found = self._examine(bound)
            if found is not None and (best is None or found[:3] < best[:3]):
                best = found
        return best

    def _bounds(self) -> list[Bound]:
        """Nodes on which enough could be freed, the one with the best bound first."""
        units = [unit for units in self.units_on.values() for unit in units]
        if not units:
            return []
        rows = np.array([unit.rows[0] for unit in units], np.int64)
        priority = np.array([unit.priority for unit in units], np.int64)
        lost = np.array([unit.lost for unit in units], np.int64)
        tables = self.books.store.tables
        nodes = tables.pods[layout.POD_NODE, rows].copy()
        with self.books.trial() as trial:
            for leaving in self.leaving_on.values():
                for row in leaving:
                    trial.release(self.books.pods.pod_at(row).uid)
            wants = self._wants(rows)
        slot = self.books.shapes.slot(self.shape)
        welcome = self.books.shapes.rankings.refused[slot, nodes] == 0
        rows, priority, lost, nodes = rows[welcome], priority[welcome], lost[welcome], nodes[welcome]
        if not len(rows):
            return []
        wants = [(amounts[welcome], short) for amounts, short in wants]
        return bounds_by_node(nodes, priority, lost, wants)

    def _wants(self, rows: Int64Array) -> list[tuple[Int64Array, Int64Array]]:
        """For each thing asked for: how much of it each candidate holds, and how much each node lacks."""
        tables = self.books.store.tables
        shapes = tables.pods[layout.POD_SHAPE, rows]
        count = tables.shapes[layout.SHAPE_GPU_COUNT]
        milli = tables.shapes[layout.SHAPE_GPU_MILLI]
        wants: list[tuple[Int64Array, Int64Array]] = []
        if count[self.shape] and milli[self.shape] == WHOLE_GPU_MILLI:
            short = count[self.shape] - tables.nodes[layout.NODE_FREE_WHOLE_GPUS]
            wants.append((count[shapes], short))
        elif count[self.shape]:
            short = count[self.shape] * milli[self.shape] - tables.nodes[layout.NODE_FREE_GPU_MILLI]
            wants.append((count[shapes] * milli[shapes], short))
        for column in range(tables.shape_resources.shape[1]):
            asked = tables.shape_resources[self.shape, column]
            if asked > 0:
                short = asked - tables.resources_free[:, column]
                wants.append((tables.shape_resources[shapes, column], short))
        return wants

    def _examine(self, bound: Bound) -> Victims | None:
        """The cheapest victims on one node."""
        units = self.units_on[bound.node]
        for priority in sorted({unit.priority for unit in units if unit.priority >= bound.priority}):
            among = [unit for unit in units if unit.priority <= priority]
            # What is just is asked of what is left in the end: all of these would be too many.
            if not self._proven(bound.node, among, judged=False):
                continue
            found = self._fewest(bound, among)
            if found is not None:
                return found
        return None

    def _proven(self, node: int, units: list[Unit], *, judged: bool = True) -> Placements:
        rows = [*self.leaving_on.get(node, ()), *(row for unit in units for row in unit.rows)]
        return self.proof.fits_without(rows, np.array([node], np.int64), judged=judged)

    def _allowed(self, units: list[Unit]) -> bool:
        pods = self.books.pods
        return self.books.budgets.allow(pods.pod_at(row) for unit in units for row in unit.rows)

    def _fewest(self, bound: Bound, among: list[Unit]) -> Victims | None:
        """As few of these as will do, and of those the ones who lose least."""
        sets = 0
        for size in range(max(1, bound.pods), len(among) + 1):
            sets += comb(len(among), size)
            if sets > SETS_A_NODE_MAX:
                return self._taken_off(bound.node, among)
            for chosen in sorted(combinations(among, size), key=lost_with):
                if self._allowed(list(chosen)):
                    placements = self._proven(bound.node, list(chosen))
                    if placements:
                        return victims(list(chosen), placements)
        return None

    def _taken_off(self, node: int, among: list[Unit]) -> Victims | None:
        """The same by taking the dearest off as long as the pod still fits: a minimal set."""
        chosen: list[Unit] = []
        for unit in among:
            if self._allowed([*chosen, unit]):
                chosen.append(unit)
        if not self._proven(node, chosen, judged=False):
            return None
        for unit in sorted(chosen, key=lambda one: one.cost, reverse=True):
            fewer = [one for one in chosen if one is not unit]
            if self._proven(node, fewer, judged=False):
                chosen = fewer
        placements = self._proven(node, chosen)
        return victims(chosen, placements) if placements else None


def lost_with(units: tuple[Unit, ...]) -> int:
    """The work that is lost with all of these."""
    return sum(unit.lost for unit in units)


def victims(units: list[Unit], placements: Placements) -> Victims:
    """These units as victims."""
    rows = tuple(row for unit in units for row in unit.rows)
    priority = max((unit.priority for unit in units), default=-NEVER)
    return Victims(priority, len(rows), lost_with(tuple(units)), rows, placements)


def bounds_by_node(
    nodes: Int64Array,
    priority: Int64Array,
    lost: Int64Array,
    wants: list[tuple[Int64Array, Int64Array]],
) -> list[Bound]:
    """What victims cost at least on each node with candidates; nodes where all would not do are left out.

    ``nodes``, ``priority`` and ``lost`` describe the candidates; ``wants`` has for each thing asked for
    how much each candidate holds of it, and by node row how much is short.
    """
    reachable = lowest_priority(nodes, priority, wants)
    limit = np.array([reachable[node] for node in nodes.tolist()], np.int64)
    inside = (priority <= limit) & (limit < NEVER)
    nodes, lost = nodes[inside], lost[inside]
    if not len(nodes):
        return []
    at, starts = np.unique(np.sort(nodes), return_index=True)
    count = np.ones(len(at), np.int64)
    for amounts, short in wants:
        held = amounts[inside]
        order = np.lexsort((-held, nodes))
        count = np.maximum(count, first_enough(held[order], short[at], starts) - starts + 1)
    so_far = np.cumsum(lost[np.lexsort((lost, nodes))])
    before = np.where(starts > 0, so_far[starts - 1], 0)
    least = so_far[np.minimum(starts + count, len(so_far)) - 1] - before
    costs = zip(at.tolist(), count.tolist(), least.tolist(), strict=True)
    return sorted(Bound(reachable[node], few, little, node) for node, few, little in costs)


def lowest_priority(
    nodes: Int64Array, priority: Int64Array, wants: list[tuple[Int64Array, Int64Array]]
) -> dict[int, int]:
    """Up to which priority candidates must go on each node so that their sums suffice, or NEVER."""
    order = np.lexsort((priority, nodes))
    at, starts = np.unique(nodes[order], return_index=True)
    ascending = np.append(priority[order], NEVER)
    highest = ascending[starts]
    for amounts, short in wants:
        highest = np.maximum(highest, ascending[first_enough(amounts[order], short[at], starts)])
    return dict(zip(at.tolist(), highest.tolist(), strict=True))


def first_enough(amounts: Int64Array, short: Int64Array, starts: Int64Array) -> Int64Array:
    """For each group the position up to which its amounts, summed from its start, cover its shortage.

    ``amounts`` lie group by group, group ``i`` from ``starts[i]`` on. The length of ``amounts`` stands
    for a group whose amounts do not suffice.
    """
    sizes = np.diff(np.append(starts, len(amounts)))
    so_far = np.cumsum(amounts)
    before = np.where(starts > 0, so_far[starts - 1], 0)
    enough = so_far - np.repeat(before, sizes) >= np.repeat(short, sizes)
    positions = np.where(enough, np.arange(len(amounts)), len(amounts))
    first: Int64Array = np.minimum.reduceat(positions, starts)
    return first
