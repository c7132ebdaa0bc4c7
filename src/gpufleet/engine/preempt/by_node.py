"""The cheapest victims for one pod that lacks nothing but room, node by node.

Cheapest is what ``candidates.cost_of`` says, among queues of one priority: the lowest highest priority
among the victims, then the fewest of them, then those whose node is spared less, then those of the queues
with the least right, then the smallest sum of their priorities, then the least work lost. For every node a
lower bound of all of these follows from sums over its candidates, worked out for the whole fleet at once;
nodes are then examined in the order of their bounds, until the next bound is no better than what was found
(branch and bound). On a node, the lowest priority is exact; so is the number, as long as there are few
enough sets to try them all. Where a single victim is enough and no candidate of lower priority is of any
use, no bound can be better, and none is worked out. Sums count room and quota (``quota_shortage``); a set
whose sums do not suffice is not tried.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import kernel
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.candidates import Candidates, Singles, Unit, cost_of
from gpufleet.engine.preempt.leaving import FAR_TOO_MUCH, GPU, Leaving
from gpufleet.engine.preempt.proof import Placements, Proof
from gpufleet.engine.preempt.quota_shortage import QuotaLack, short_quota
from gpufleet.model.device import WHOLE_GPU_MILLI

PROOFS_MAX = 4096
"""A search that needs more proofs than this is cut short, and says so."""
SETS_A_NODE_MAX = 300
"""On a node with more sets than this, victims are taken off one by one instead."""
COSTS = 6
"""So many of the first fields of ``Bound`` and ``Victims`` are compared."""
NEVER = 1 << 60
"""Above every priority and cost, with room for sums of it within 64 bits."""


class Bound(NamedTuple):
    """What victims on a node cost at least."""

    priority: int
    pods: int
    spared: int
    right: int
    sum: int
    lost: int
    node: int


class Victims(NamedTuple):
    """Proven victims on one node, and where the pod goes."""

    priority: int
    pods: int
    spared: int
    right: int
    sum: int
    lost: int
    rows: tuple[int, ...]
    placements: Placements


class HeldOnNode(NamedTuple):
    """By row of a candidate what it holds of each thing that is short on its node, and how much that is."""

    by_row: dict[int, list[int]]
    short: list[int]


class ByNode:
    """A search for one pod among these candidates; ``short`` says what each node lacks (``FutureRoom``).

    ``is_single``: it found a single victim than which nothing could be cheaper.
    """

    def __init__(
        self,
        proof: Proof,
        state: EngineState,
        leaving: Leaving,
        short: Int64Array,
        found: Candidates,
    ) -> None:
        self.proof = proof
        self.state = state
        self.leaving = leaving
        self.short = short
        self.found = found
        self.singles = singles = found.singles
        self.nodes: Int64Array = state.store.tables.pods[layout.POD_NODE, singles.rows]
        self.shape = int(state.store.tables.pods[layout.POD_SHAPE, proof.unplaced.row])
        self.quota: QuotaLack = short_quota(state.store.tables, proof.unplaced.row, singles.rows)
        self.cut = False
        self.is_single = False
        self._units_on: dict[int, list[Unit]] = {}
        self._held_on: dict[int, HeldOnNode] = {}

    def find(self) -> Victims | None:
        """The cheapest victims, None if there are none (or ``cut`` is set)."""
        best = self.single()
        if best is not None:
            return best
        # Bounds rise, so the first that is no better than what is proven ends the search.
        for bound in self._bounds():
            if best is not None and bound[:COSTS] >= best[:COSTS]:
                break
            if self.proof.tries > PROOFS_MAX:
                # What is proven already is a good answer, only perhaps not the cheapest.
                self.cut = best is None
                break
            found = self._examine(bound)
            if found is not None and (best is None or found[:COSTS] < best[:COSTS]):
                best = found
        return best

    def single(self) -> Victims | None:
        """A single victim than which nothing can be cheaper, if there is one."""
        unit, node = self._cheapest_single(self.short)
        placements = () if unit is None else self._proven(node, [unit])
        self.is_single = bool(placements)
        return None if unit is None or not placements else victims([unit], placements)

    def single_for_quota(self) -> Victims | None:
        """A single victim than which nothing can be cheaper, for a pod that lacks quota alone."""
        unit = self._cheapest_single(np.zeros_like(self.short))[0] if len(self.quota.lacks) else None
        if unit is None:
            return None
        with self.proof.without_leaving(self.leaving.rows):
            placements = self.proof.fits_without(unit.rows)
        return victims([unit], placements) if placements else None

    def _cheapest_single(self, short: Int64Array) -> tuple[Unit | None, int]:
        """A candidate that holds all that is short, and its node; no cheaper set can."""
        tables = self.state.store.tables
        place = int(cheapest_single(tables, self.shape, short, *self.quota, *self.singles, False))
        if place == layout.NOT_SET:
            return None, layout.NOT_SET
        return self.singles.units(np.array([place], np.int64))[0], int(self.nodes[place])

    def _bounds(self) -> list[Bound]:
        """Nodes on which enough could be freed, the one with the best bound first."""
        # A node that does not suit the shape is far too short of GPUs, whatever leaves it.
        welcome = self.short[self.nodes, GPU] < FAR_TOO_MUCH
        nodes, singles = self.nodes[welcome], self.singles.at(welcome)
        if not len(nodes):
            return []
        return bounds_by_node(nodes, singles, self._wants(np.flatnonzero(welcome)))

    def _wants(self, places: Int64Array) -> list[tuple[Int64Array, Int64Array]]:
        """For each thing asked for: how much of it the candidates of these places hold, and how much is short
        by node.
        """
        rows = self.singles.rows[places]
        room = room_wanted(self.state.store.tables, self.shape, rows, self.short)
        lacks, everywhere = self.quota.lacks.tolist(), np.ones(len(self.short), np.int64)
        quota = ((self.quota.gives[number, places], lack * everywhere) for number, lack in enumerate(lacks))
        return [*room, *quota]

    def _units(self, node: int) -> list[Unit]:
        """The candidates on a node, in the order in which they go."""
        if node not in self._units_on:
            places = np.flatnonzero(self.nodes == node)
            self._units_on[node] = self.singles.units(places)
            wants = [(held, int(short[node])) for held, short in self._wants(places) if short[node] > 0]
            rows, held = self.singles.rows[places].tolist(), np.array([held for held, _ in wants]).T.tolist()
            self._held_on[node] = HeldOnNode(
                dict(zip(rows, held, strict=False)), [short for _, short in wants]
            )
        return self._units_on[node]

    def _may_do(self, node: int, units: Sequence[Unit]) -> bool:
        """True unless what these hold together is less than what is short."""
        by_row, short = self._held_on[node]
        # Where nothing is short the pod is kept off by something else, which sums cannot tell.
        if not (short and units):
            return not short
        held = [by_row[unit.rows[0]] for unit in units]
        return all(sum(column) >= lack for column, lack in zip(zip(*held, strict=True), short, strict=True))

    def _examine(self, bound: Bound) -> Victims | None:
        """The cheapest victims on one node."""
        units = self._units(bound.node)
        for priority in sorted({unit.priority for unit in units if unit.priority >= bound.priority}):
            among = [unit for unit in units if unit.priority <= priority]
            # What is just is asked of what is left in the end: all of these would be too many.
            if not (self._may_do(bound.node, among) and self._proven(bound.node, among, judged=False)):
                continue
            # How many there are at least was worked out for the lowest priority alone.
            least = bound.pods if priority == bound.priority else 1
            found = self._fewest(bound._replace(pods=least), among)
            if found is not None:
                return found
        return None

    def _proven(self, node: int, units: list[Unit], *, judged: bool = True) -> Placements:
        rows = [*self.leaving.on(node), *(row for unit in units for row in unit.rows)]
        return self.proof.fits_without(rows, np.array([node], np.int64), judged=judged)

    def _allowed(self, units: list[Unit]) -> bool:
        pods = self.state.pods
        return self.found.keep_minimums(units) and self.state.budgets.allow(
            pods.pod_at(row) for unit in units for row in unit.rows
        )

    def _fewest(self, bound: Bound, among: list[Unit]) -> Victims | None:
        """As few of these as will do, of those the least important, and then those with the least work to
        lose.
        """
        sets = 0
        # From few to many: the first size at which a set is proven has the fewest victims.
        for size in range(max(1, bound.pods), len(among) + 1):
            sets += comb(len(among), size)
            if sets > SETS_A_NODE_MAX:
                return self._taken_off(bound, among)
            able = [chosen for chosen in combinations(among, size) if self._may_do(bound.node, chosen)]
            for chosen in sorted(able, key=partial(cost_of, for_gang=False)):
                if self._allowed(list(chosen)):
                    placements = self._proven(bound.node, list(chosen))
                    if placements:
                        return victims(list(chosen), placements)
        return None

    def _taken_off(self, bound: Bound, among: list[Unit]) -> Victims | None:
        """Few victims, found by taking the dearest off as long as the pod still fits: a minimal set.

        If it is not just to evict these, they are looked for among candidates that may justly go together.
        """
        chosen: list[Unit] = []
        # One by one, because disruption budgets and gangs' minimums bound how many go together.
        for unit in among:
            if self._allowed([*chosen, unit]):
                chosen.append(unit)
        parts = self.proof.reclaimable_subsets(chosen if self.found.surplus else among)
        just = (self._minimal(bound, part, judged=True) for part in parts)
        return self._minimal(bound, chosen) or next(filter(None, just), None)

    def _minimal(self, bound: Bound, units: list[Unit], *, judged: bool = False) -> Victims | None:
        """As many at once as will do: what can be spared together could be spared one by one.

        ``judged``: only what it is just to evict is preferred to more.
        """
        if not (units and self._proven(bound.node, units, judged=False)):
            return None
        needed: list[Unit] = []
        rest = sorted(units, key=lambda one: one.cost, reverse=True)
        # At first all that the bound says may be spared; halved where that is too much, doubled where it is
        # not.
        size = max(1, len(rest) - bound.pods)
        while rest:
            fewer = [*needed, *rest[size:]]
            if self._may_do(bound.node, fewer) and self._proven(bound.node, fewer, judged=judged):
                rest = rest[size:]
                size = max(1, min(2 * size, len(rest)))
            elif size == 1:
                needed.append(rest.pop(0))
            else:
                size = (size + 1) // 2
        placements = self._proven(bound.node, needed)
        return victims(needed, placements) if placements else None


def room_wanted(
    tables: Tables, shape: int, rows: Int64Array, short: Int64Array
) -> list[tuple[Int64Array, Int64Array]]:
    """For each kind of room that a shape asks for: how much of it these pods hold, and how much is short by
    node.
    """
    shapes = tables.pods[layout.POD_SHAPE, rows]
    wants: list[tuple[Int64Array, Int64Array]] = []
    if tables.shapes[layout.SHAPE_GPU_COUNT, shape]:
        held = tables.shapes[layout.SHAPE_GPU_COUNT, shapes]
        # A share lacks milli; a whole request lacks devices.
        if tables.shapes[layout.SHAPE_GPU_MILLI, shape] != WHOLE_GPU_MILLI:
            held = held * tables.shapes[layout.SHAPE_GPU_MILLI, shapes]
        wants.append((held, short[:, GPU]))
    asked = np.flatnonzero(tables.shape_resources[shape] > 0).tolist()
    hosts = ((tables.shape_resources[shapes, column], short[:, 1 + column]) for column in asked)
    return [*wants, *hosts]


def sum_of(units: tuple[Unit, ...]) -> int:
    """The sum of their priorities."""
    return sum(unit.priority for unit in units)


def lost_with(units: tuple[Unit, ...]) -> int:
    """The work that is lost with all of these."""
    return sum(unit.lost for unit in units)


def victims(units: list[Unit], placements: Placements) -> Victims:
    """These units as victims."""
    rows = tuple(row for unit in units for row in unit.rows)
    priority = max((unit.priority for unit in units), default=-NEVER)
    spared = sum(unit.spared for unit in units)
    among = tuple(units)
    right = max((unit.right for unit in units), default=0)
    return Victims(priority, len(rows), spared, right, sum_of(among), lost_with(among), rows, placements)


def bounds_by_node(
    nodes: Int64Array,
    singles: Singles,
    wants: list[tuple[Int64Array, Int64Array]],
) -> list[Bound]:
    """What victims cost at least on each node with candidates; nodes where all would not do are left out.

    ``nodes`` has the node of each of the candidates; ``wants`` has for each thing asked for
    how much each candidate holds of it, and by node row how much is short.
    """
    priority, lost = singles.priority, singles.lost
    reachable = lowest_priority(nodes, priority, wants)
    limit = np.array([reachable[node] for node in nodes.tolist()], np.int64)
    inside = (priority <= limit) & (limit < NEVER)
    singles = singles.at(inside)
    nodes, lost, spared, priority = nodes[inside], singles.lost, singles.spared, singles.priority
    if not len(nodes):
        return []
    # All on one node are spared alike.
    at, first = np.unique(nodes, return_index=True)
    starts = np.searchsorted(np.sort(nodes), at)
    count = np.ones(len(at), np.int64)
    for amounts, short in wants:
        held = amounts[inside]
        # The largest holders of each node first: as few of them as suffice are a lower bound of how many go.
        order = np.lexsort((-held, nodes))
        count = np.maximum(count, first_enough(held[order], short[at], starts) - starts + 1)
    sums, least = sum_of_smallest(nodes, priority, starts, count), sum_of_smallest(nodes, lost, starts, count)
    # The highest right among as many with the least right.
    ordered = singles.right[np.lexsort((singles.right, nodes))]
    right = ordered[np.minimum(starts + count, len(ordered)) - 1]
    columns = (one.tolist() for one in (at, count, count * spared[first], right, sums, least))
    return sorted(
        Bound(reachable[node], few, some, right_, sum_, little, node)
        for node, few, some, right_, sum_, little in zip(*columns, strict=True)
    )


def sum_of_smallest(
    nodes: Int64Array, amounts: Int64Array, starts: Int64Array, count: Int64Array
) -> Int64Array:
    """For each node the sum of the smallest of these amounts that lie there, as many as its count says."""
    so_far = np.cumsum(amounts[np.lexsort((amounts, nodes))])
    before = np.where(starts > 0, so_far[starts - 1], 0)
    found: Int64Array = so_far[np.minimum(starts + count, len(so_far)) - 1] - before
    return found


def lowest_priority(
    nodes: Int64Array, priority: Int64Array, wants: list[tuple[Int64Array, Int64Array]]
) -> dict[int, int]:
    """Up to which priority candidates must go on each node so that their sums suffice, or NEVER."""
    order = np.lexsort((priority, nodes))
    at, starts = np.unique(nodes[order], return_index=True)
    # NEVER behind the last one answers for nodes whose candidates do not suffice.
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
    # One running sum over all nodes, less what it was at the start of each, is a sum a node.
    enough = so_far - np.repeat(before, sizes) >= np.repeat(short, sizes)
    positions = np.where(enough, np.arange(len(amounts)), len(amounts))
    first: Int64Array = np.minimum.reduceat(positions, starts)
    return first


@kernel
def cheapest_single(
    tables: Tables,
    shape: int,
    short: Int64Array,
    lacks: Int64Array,
    gives: Int64Array,
    rows: Int64Array,
    priority: Int64Array,
    lost: Int64Array,
    right: Int64Array,
    spared: Int64Array,
    queue_priority: Int64Array,
    _gang: Int64Array,
    order: Int64Array,
    in_order: bool,
) -> int:
    """The place in ``rows`` of a candidate that holds all that its node and quota lack; NOT_SET if none does.

    That of the queue with the lowest priority, then with the lowest priority of its own, then the one less
    spared, then of the queue with the least right, then the least work to lose, then by ``order``; none if
    one of lower priority holds anything of use: it and others might do. Rows that are NOT_SET stand for no
    pod.
    ``in_order``: no candidate in front of another costs more than that one does, but for their rights.
    """
    whole = tables.shapes[layout.SHAPE_GPU_MILLI, shape] == WHOLE_GPU_MILLI
    best, lowest, lowest_queue = layout.NOT_SET, NEVER, NEVER
    for place in range(len(rows)):
        if rows[place] == layout.NOT_SET:
            continue
        if in_order and best != layout.NOT_SET:  # What follows costs no less, but for its right.
            cost = (queue_priority[place], priority[place], spared[place])
            if right[best] == 0 or cost > (queue_priority[best], priority[best], spared[best]):
                break
        node = tables.pods[layout.POD_NODE, rows[place]]
        if short[node, GPU] >= FAR_TOO_MUCH:
            continue
        of = tables.pods[layout.POD_SHAPE, rows[place]]
        enough, is_short, useful = True, False, False
        for thing in range(short.shape[1]):
            if short[node, thing] <= 0:
                continue
            if thing == GPU:
                held = tables.shapes[layout.SHAPE_GPU_COUNT, of]
                if not whole:
                    held *= tables.shapes[layout.SHAPE_GPU_MILLI, of]
            else:
                held = tables.shape_resources[of, thing - 1]
            is_short = True
            useful = useful or held > 0
            enough = enough and held >= short[node, thing]
        for number in range(len(lacks)):
            is_short, useful = True, useful or gives[number, place] > 0
            enough = enough and gives[number, place] >= lacks[number]
        is_lower = (queue_priority[place], priority[place]) < (lowest_queue, lowest)
        if is_lower and (useful or not is_short):
            lowest_queue, lowest = queue_priority[place], priority[place]
        if not enough:
            continue
        if best == layout.NOT_SET or (
            queue_priority[place],
            priority[place],
            spared[place],
            right[place],
            lost[place],
            order[place],
        ) < (queue_priority[best], priority[best], spared[best], right[best], lost[best], order[best]):
            best = place
    if best == layout.NOT_SET or (queue_priority[best], priority[best]) > (lowest_queue, lowest):
        return layout.NOT_SET
    return best
