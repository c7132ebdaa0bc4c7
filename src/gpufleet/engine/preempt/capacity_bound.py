"""The most room that could come together for a gang if no pod goes that has a right to stay.

A *side* is the queue right below the lowest queue above both (``reclaim``). A side gives only what it has
borrowed: before its last victim goes it is beyond its nominal amount of something that the gang needs. So
what all victims of a side are charged of that one resource is less than what it borrows and one victim more,
which may be a whole gang.
How much room of each kind such victims hold at most is a fractional knapsack, filled in the order of room
per charge (Dantzig, Discrete-Variable Extremum Problems, Operations Research 5, 1957).

Where even that, all that is free and all that leaving pods leave are less than the gang asks for, no set of
victims is both large enough and just, and none is tried: without this a gang that lacks one GPU costs a
hundred proofs. ``victim_search`` asks before it looks over the fleet.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.engine.preempt.quota_shortage import freed_quota
from gpufleet.engine.preempt.reclaim import Reclaim
from gpufleet.model.device import WHOLE_GPU_MILLI

FloatArray = npt.NDArray[np.float64]
ROUNDING = 1e-9
"""Sums of floats are taken for this part larger than they are, so that rounding loses no candidate."""


class NeededResource(NamedTuple):
    """Something that a gang needs: the least of it, what is free, and by shape how much a pod leaves."""

    needed: int
    free: int
    left: Int64Array


class LentCandidates(NamedTuple):
    """Candidates side by side: their rows, where each side begins, and the row of its queue.

    ``limits`` has for each column that may show that a side has borrowed what each candidate is charged of
    it, and how much of it the victims of each side may be charged together.
    """

    rows: Int64Array
    starts: Int64Array
    limits: list[tuple[Int64Array, FloatArray]]


def may_suffice(
    state: EngineState,
    workload: Workload,
    reclaim: Reclaim,
    singles: Int64Array,
    gangs: Sequence[Sequence[int]],
    leaving: Int64Array,
) -> bool:
    """False if a gang would lack room whichever of these pods and whole gangs are evicted justly.

    ``leaving`` are the rows of those that end anyway. To be asked when they are not charged.
    """
    pods = state.store.tables.pods
    shapes: Int64Array = pods[layout.POD_SHAPE, workload.rows]
    # Room on nodes where no member could ever go is of no use, however much of it is freed.
    suits = suitable(state, np.unique(shapes).tolist())
    short = list(things_short(state, shapes, workload.least, suits))
    if not short:
        return True
    together = [np.array(rows, np.int64) for rows in gangs]
    candidates = np.unique(np.concatenate([singles, *together]))
    sides = sides_of(reclaim, pods[layout.POD_QUEUE, candidates])
    # Side by side, without those of no side: NOT_SET is below every row, so these come first.
    order = np.argsort(sides, kind="stable")[np.count_nonzero(sides == layout.NOT_SET) :]
    lent = lent_by(state, reclaim, workload.row, candidates[order], sides[order], together)
    # Candidates of no side have no limit here, so all of them count as gone.
    gone = np.concatenate([leaving, candidates[sides == layout.NOT_SET]])
    for thing in short:
        given = sum(held(state, thing, gone, suits).tolist()) + most_given(state, thing, lent, suits)
        if thing.free + given < thing.needed:
            return False
    return True


def sides_of(reclaim: Reclaim, queues: Int64Array) -> Int64Array:
    """The side of each of these queues; NOT_SET for the own queue and those that cannot be compared."""
    known = reclaim.shares.sides(reclaim.row)
    found = np.full(len(queues), layout.NOT_SET, np.int64)
    is_known = (queues != layout.NOT_SET) & (queues < len(known))
    found[is_known] = known[queues[is_known]]
    return found


def suitable(state: EngineState, shapes: Sequence[int]) -> BoolArray:
    """By node row, whether some of these shapes could ever go there."""
    count = state.fleet.row_count
    found = np.zeros(count, np.bool_)
    for shape in shapes:
        # A slot is filled first: it says which nodes refuse the shape by labels and taints.
        slot = state.shapes.slot(shape)
        found |= state.shapes.rankings.refused[slot, :count] == 0
    present: BoolArray = state.store.tables.nodes[layout.NODE_PRESENT, :count] == 1
    return found & present


def things_short(
    state: EngineState, shapes: Int64Array, least: int, suits: BoolArray
) -> Iterator[NeededResource]:
    """Of what these nodes have less free than any ``least`` of these pods need: whole GPUs, thousandths of
    GPUs, and host resources.
    """
    tables, nodes = state.store.tables, np.flatnonzero(suits)
    count, milli = tables.shapes[layout.SHAPE_GPU_COUNT], tables.shapes[layout.SHAPE_GPU_MILLI]
    free: list[int] = tables.nodes[:, nodes].sum(axis=1).tolist()
    host: list[int] = np.maximum(0, tables.resources_free[nodes]).sum(axis=0).tolist()
    wholes = np.where(milli == WHOLE_GPU_MILLI, count, 0)
    asked = [
        (wholes, free[layout.NODE_FREE_WHOLE_GPUS], count),
        (count * milli, free[layout.NODE_FREE_GPU_MILLI], count * milli),
        *((amounts, host[column], amounts) for column, amounts in enumerate(tables.shape_resources.T)),
    ]
    for each, there, left in asked:
        # The smallest requests, as any members may be the first to start; summed as Python's integers, which
        # do not overflow.
        needed = sum(np.sort(each[shapes])[:least].tolist())
        if needed > there:
            yield NeededResource(needed, there, left)


def held(state: EngineState, thing: NeededResource, rows: Int64Array, suits: BoolArray) -> Int64Array:
    """How much each of these pods leaves on nodes where it is of use, if it goes."""
    pods = state.store.tables.pods
    of_use = suits[pods[layout.POD_NODE, rows]]
    return np.where(of_use, thing.left[pods[layout.POD_SHAPE, rows]], 0)


def lent_by(
    state: EngineState,
    reclaim: Reclaim,
    unplaced: int,
    rows: Int64Array,
    sides: Int64Array,
    gangs: Sequence[Int64Array],
) -> LentCandidates:
    """These candidates, which lie side by side, and how much of what each side may give.

    Some of them may go only together, as ``gangs``.

    Where queues below a side keep something for themselves, less is counted above them than is charged:
    there nothing is known.
    """
    tables, tree = state.store.tables, reclaim.tree
    known, starts = np.unique(sides, return_index=True)
    columns = np.array(reclaim.columns, np.int64)
    charges = np.zeros((len(columns), len(rows)), np.int64)
    # ``reduceat`` takes no empty arrays.
    if not (len(rows) and len(columns)):
        return LentCandidates(rows, starts, [])
    freed_quota(tables, unplaced, rows, columns, charges)
    below = reclaim.shares.sides(reclaim.row)
    side_of = [int(sides_of(reclaim, tables.pods[layout.POD_QUEUE, gang[:1]])[0]) for gang in gangs]
    limits: list[tuple[Int64Array, FloatArray]] = []
    for number, column in enumerate(reclaim.columns):
        # The last victim may take the side below what it borrowed, by no more than the largest of them.
        least = tables.shape_charges[tables.pods[layout.POD_SHAPE, rows], column]
        largest = np.maximum.reduceat(least, starts)
        for side, gang in zip(side_of, gangs, strict=True):
            charge = tables.shape_charges[tables.pods[layout.POD_SHAPE, gang], column].sum()
            largest = np.where(known == side, np.maximum(largest, charge), largest)
        borrowed = tables.queue_counted[known, column] - tree.subtree[known, column]
        keeps = (tree.guaranteed[: len(below), column] != 0) & (below != np.arange(len(below)))
        # One less, because before the last victim goes something of what was borrowed must be left.
        most = np.where(np.isin(known, below[keeps]), np.inf, borrowed + largest - 1.0)
        # By this resource the side gives nothing: it has borrowed none, or its work is charged none.
        most[(borrowed <= 0) | (largest <= 0)] = -1.0
        limits.append((charges[number], most))
    return LentCandidates(rows, starts, limits)


def most_given(state: EngineState, thing: NeededResource, lent: LentCandidates, suits: BoolArray) -> float:
    """The most that all sides together can leave of a thing and be within what they may give."""
    if not lent.limits:
        return 0.0
    amounts = held(state, thing, lent.rows, suits)
    # A side may show by any one resource that it has borrowed, so the limit that allows the most counts.
    return float(np.max([knapsacks(amounts, *limit, lent.starts) for limit in lent.limits], axis=0).sum())


def knapsacks(amounts: Int64Array, charges: Int64Array, most: FloatArray, starts: Int64Array) -> FloatArray:
    """For each side the largest sum of amounts of which the charges sum up to no more than its most.

    Parts may be taken, and the sum is rounded down to a whole number: never less than whole ones give.
    """
    sizes = np.diff(np.append(starts, len(amounts)))
    group = np.repeat(np.arange(len(starts)), sizes)
    # What costs no quota goes first, as if it had the best ratio.
    ratio = np.divide(amounts, charges, out=np.full(len(amounts), np.inf), where=charges > 0)
    order = np.lexsort((-ratio, group))
    charge = charges[order]
    # What is charged in front of each, over all sides; less the sum at the start of its side below.
    before = np.cumsum(charge) - charge
    room = most[group] - (before - np.repeat(before[starts], sizes))
    part = np.divide(room, charge, out=np.ones(len(charge)), where=charge > 0)
    part = np.where(most[group] < 0, 0.0, np.clip(part, 0.0, 1.0))
    sums: FloatArray = np.add.reduceat(amounts[order] * part, starts)
    return np.floor(sums * (1 + ROUNDING))
