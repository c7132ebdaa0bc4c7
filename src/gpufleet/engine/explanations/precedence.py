"""Which queues go before a queue, and by which right.

The same order as in ``turns``, over all work that waits and not only over work that may run now. Costs a look
at every queue with work, so no decision asks for it.
"""

from typing import NamedTuple

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.explanations.queue_report import NOMINATED, RESERVED
from gpufleet.engine.explanations.waiting_order import Queued
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.queueing.line import Head
from gpufleet.engine.queueing.turns import (
    BEYOND_WHAT_IS_OWED,
    TOP,
    UNDESCRIBED,
    WITHIN_WHAT_IS_OWED,
    WITHOUT_WEIGHT,
    lacks_its_own,
)
from gpufleet.model.identifiers import QueueName

HAVE_PLACES = (NOMINATED, RESERVED)


class Contestant(NamedTuple):
    """The next workload of a queue: its turn and what it will be charged at least."""

    head: Head
    asked: Int64Array


class Right(NamedTuple):
    """By which a queue stands among its siblings; the smallest goes first."""

    class_of_right: int
    minus_priority: int
    endless: bool
    share_key: int
    has_its_own: bool
    minus_weight: int
    head: Head


class CompetingQueue(NamedTuple):
    """A queue with work and its right. ``share_milli`` None: it comes after all others that borrow."""

    queue: QueueName
    right: Right
    share_milli: int | None

    @property
    def is_within(self) -> bool:
        """True if its next workload stays within what the queue is owed."""
        return self.right.class_of_right == WITHIN_WHAT_IS_OWED


def precedence(
    state: EngineState, line: tuple[Queued, ...], name: QueueName, at_us: int
) -> list[list[CompetingQueue]]:
    """From the queue up to its root: on each level all queues with work, the first to go first.

    What pods hold that leave does not count, as in ``turns``.
    """
    with state.trial():
        state.future_quota.change(state.future_quota.charges().leaving, -1)
        return _by_level(state, line, name, at_us)


def _by_level(
    state: EngineState, line: tuple[Queued, ...], name: QueueName, at_us: int
) -> list[list[CompetingQueue]]:
    tree = state.queues.tree
    contestants = _first_of_each(state, line)
    best: dict[int, tuple[Right, Contestant]] = {}
    for row in _bottom_up(state, list(contestants)):
        below = [best[child] for child in tree.children(row) if child in best]
        contestant = contestants.get(row)
        # A queue that has queues below it competes by the best of these.
        if contestant is None and below:
            contestant = min(below, key=lambda one: one[0])[1]
        if contestant is not None:
            best[row] = _right(state, row, contestant, at_us), contestant
    found: list[list[CompetingQueue]] = []
    row = tree.row_by_name[name]
    while row != TOP:
        parent = int(tree.parent[row])
        siblings = [one for one in best if int(tree.parent[one]) == parent]
        siblings.sort(key=lambda one: best[one][0])
        found.append([_competing_queue(state, one, best[one][0], at_us) for one in siblings])
        row = parent
    return found


def _first_of_each(state: EngineState, line: tuple[Queued, ...]) -> dict[int, Contestant]:
    """By row of the queue; work that has a place already takes no turn."""
    found: dict[int, Contestant] = {}
    for queued in line:
        row = state.queues.tree.row_by_name.get(queued.queue)
        # Only the first of a queue competes with other queues, and a gang that lacks members takes no turn.
        if row is None or row in found or queued.position is None or queued.reason in HAVE_PLACES:
            continue
        pod_row = state.pods.row_by_uid[queued.uid]
        pod = state.pods.pod_at(pod_row)
        head = Head(-queued.priority, pod.created_at_us, pod.name, state.sequence_by_row[pod_row])
        found[row] = Contestant(head, state.workloads.of(pod_row).asked(state.gate))
    return found


def _bottom_up(state: EngineState, rows: list[int]) -> list[int]:
    """Queues and all above them, children before their parents."""
    tree = state.queues.tree
    depth: dict[int, int] = {}
    for row in rows:
        path = list(tree.path(row))
        for above, one in enumerate(path):
            depth[one] = len(path) - above
    # The longer the way to the root the earlier, so that children are known before their parents.
    return sorted(depth, key=lambda row: -depth[row])


def _right(state: EngineState, row: int, contestant: Contestant, at_us: int) -> Right:
    tree = state.queues.tree
    if not tree.is_described(row):
        return Right(UNDESCRIBED, 0, False, 0, False, 0, contestant.head)
    queue, asked = tree.queue_at(row), contestant.asked
    counted = state.store.tables.queue_counted[row]
    beyond = bool(((counted + asked > tree.subtree[row]) & (asked > 0)).any())
    right, minus_weight, has_its_own = WITHIN_WHAT_IS_OWED, 0, False
    if beyond:
        right = BEYOND_WHAT_IS_OWED if queue.weight_milli else WITHOUT_WEIGHT
        minus_weight = -queue.weight_milli
        ask = list(enumerate(asked.tolist()))
        has_its_own = not lacks_its_own(counted.tolist(), tree.subtree[row].tolist(), ask)
    endless, key = state.turns.share(row, at_us).order_key
    return Right(right, -queue.priority, endless, key, has_its_own, minus_weight, contestant.head)


def _competing_queue(state: EngineState, row: int, right: Right, at_us: int) -> CompetingQueue:
    tree = state.queues.tree
    share = state.turns.share(row, at_us) if tree.is_described(row) else None
    milli = None
    if share is not None and not share.endless and share.denominator != layout.NOT_SET:
        milli = share.numerator * 1000 // share.denominator
    return CompetingQueue(tree.name_at(row), right, milli)
