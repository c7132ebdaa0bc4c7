"""What there is to say of each queue at any time: its limits, what it uses, and why its work waits."""

from collections import Counter, defaultdict

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import QueueBar
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.queueing.available import binding_limit
from gpufleet.engine.queueing.line import Line
from gpufleet.model.identifiers import QueueName, QuotaResource

BACKOFF = "backoff"
NOMINATED = "nominated"
RESERVED = "reserved"
INCOMPLETE = "incomplete-gang"
QUOTA = "quota"
NODES = "nodes"
TURN = "turn"
"""Why pods wait: a pause after a refused bind, pods that end first where a place is kept, work that is to end
some day where one is reserved, members that have not come, quota, no node with room, or work before them in
a strict queue. Besides, each ``WhyBarred``.
"""


class ResourceUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource of one queue, in the resource's own unit.

    ``used`` is what pods of everything below the queue hold; a place that is kept for one is not used yet.
    ``borrowed`` is what it has of others' quota, ``lent`` what others have of its own: where several lend,
    each in proportion to what it has idle. ``available`` is what one workload could still be charged beside
    all that is used or kept, None where nothing limits it. ``protected`` is what work that may not be evicted
    has of ``nominal``, which is all that such work may have of it.
    """

    resource: QuotaResource
    nominal: int
    used: int
    borrowed: int
    lent: int
    available: int | None
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    hard_limit: int | None = None
    protected: int = 0


class QueueUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One queue. ``pending`` counts waiting pods by reason, those of queues below it left out."""

    queue: QueueName
    parent: QueueName | None
    bar: QueueBar | None
    resources: tuple[ResourceUse, ...]
    pending: dict[str, int]
    is_described: bool = True


def queue_report(state: EngineState) -> tuple[QueueUse, ...]:
    """Every queue that is described or has pods, parents before children, siblings by name."""
    if not state.queues.is_active:
        return ()
    # Read before kept places are taken off, because those leave no quota for other work.
    pending, left = _pending(state), _left_amounts(state)
    # Kept places are charged already and not used yet, so their charges are taken off for the report.
    with state.trial():
        state.future_quota.change(state.future_quota.charges().nominated, -1)
        return _uses(state, pending, left)


def _uses(
    state: EngineState, pending: dict[QueueName, Counter[str]], left: dict[tuple[int, int], int]
) -> tuple[QueueUse, ...]:
    tree, lent = state.queues.tree, lent_amounts(state)
    level = sorted(
        (row for row in tree.row_by_name.values() if tree.parent[row] == layout.NOT_SET), key=tree.name_at
    )
    found: list[QueueUse] = []
    while level:
        row = level.pop(0)
        found.append(_use(state, row, dict(sorted(pending[tree.name_at(row)].items())), left, lent))
        # Children in front of what is left of their parent's level: the order of a tree that is printed.
        level = sorted(tree.children(row), key=tree.name_at) + level
    return tuple(found)


def _use(
    state: EngineState,
    row: int,
    pending: dict[str, int],
    left: dict[tuple[int, int], int],
    lent: dict[tuple[int, int], int],
) -> QueueUse:
    tree = state.queues.tree
    columns = sorted(tree.resources.column_by_name.items())
    uses = tuple(
        _resource_use(state, row, resource, column, left[row, column], lent.get((row, column), 0))
        for resource, column in columns
        if state.store.tables.queue_limits[layout.LIMIT_POOLED, row, column]
        or state.store.tables.queue_total[row, column]
    )
    bar = tree.bar(row)
    return QueueUse(tree.name_at(row), tree.queue_at(row).parent, bar, uses, pending, tree.is_described(row))


def _left_amounts(state: EngineState) -> dict[tuple[int, int], int]:
    """What one workload could still be charged, by row and column."""
    tables, tree = state.store.tables, state.queues.tree
    columns = list(tree.resources.column_by_name.values())
    return {
        (row, column): int(binding_limit(tables, row, column)[0])
        for row in tree.row_by_name.values()
        for column in columns
    }


def _resource_use(
    state: EngineState, row: int, resource: QuotaResource, column: int, left: int, lent: int
) -> ResourceUse:
    tables = state.store.tables
    limits = tables.queue_limits[:, row, column].tolist()

    def stated(kind: int) -> int | None:
        return None if limits[kind] == layout.NO_LIMIT else int(limits[kind])

    return ResourceUse(
        resource,
        limits[layout.LIMIT_NOMINAL],
        int(tables.queue_total[row, column]),
        _borrowed(state, row, column),
        lent,
        # A queue may use more than a limit that was lowered since.
        None if left == layout.NO_LIMIT else max(0, left),
        stated(layout.LIMIT_BORROWING),
        stated(layout.LIMIT_LENDING),
        stated(layout.LIMIT_HARD),
        int(tables.queue_protected[row, column]),
    )


def lent_amounts(state: EngineState) -> dict[tuple[int, int], int]:
    """What others have of each queue's own, by row and column; queues that lend nothing are left out.

    Of what the children of a queue have borrowed, its own nominal amount comes first; the rest is lent by
    those children that have idle quota to lend.
    """
    tables, tree = state.store.tables, state.queues.tree
    rows = np.array(sorted(tree.row_by_name.values()), np.int64)
    found: dict[tuple[int, int], int] = {}
    for column in tree.resources.column_by_name.values():
        counted, subtree = tables.queue_counted[:, column], tree.subtree[:, column]
        borrowed = np.where(tree.named[:, column] & (tree.parent != layout.NOT_SET), counted - subtree, 0)
        for parent in np.unique(tree.parent[rows[borrowed[rows] > 0]]).tolist():
            children = tree.children(parent)
            beyond = int(np.maximum(0, borrowed[children]).sum()) - int(tree.nominal[parent, column])
            for child, part in _parts(state, children, column, beyond).items():
                found[child, column] = part
    return found


def _parts(state: EngineState, children: list[int], column: int, taken: int) -> dict[int, int]:
    """What was taken, in proportion to what each has idle; the last makes up for rounding down."""
    idle = {child: amount for child in children if (amount := _idle(state, child, column))}
    taken = min(taken, sum(idle.values()))
    if taken <= 0:
        return {}
    parts = {child: taken * amount // sum(idle.values()) for child, amount in idle.items()}
    # So that the parts add up to what was taken.
    parts[next(reversed(idle))] += taken - sum(parts.values())
    return parts


def _idle(state: EngineState, row: int, column: int) -> int:
    """What a queue lends and does not use itself."""
    tables, tree = state.store.tables, state.queues.tree
    if not tables.queue_limits[layout.LIMIT_POOLED, row, column]:
        return 0
    kept = max(int(tree.guaranteed[row, column]), int(tables.queue_counted[row, column]))
    return max(0, int(tree.subtree[row, column]) - kept)


def _borrowed(state: EngineState, row: int, column: int) -> int:
    tables, tree = state.store.tables, state.queues.tree
    if not tree.named[row, column] or tree.parent[row] == layout.NOT_SET:
        return 0
    return max(0, int(tables.queue_counted[row, column] - tree.subtree[row, column]))


def _pending(state: EngineState) -> dict[QueueName, Counter[str]]:
    """Waiting pods by queue and reason; costs one look at each, and one question a line."""
    counts: dict[QueueName, Counter[str]] = defaultdict(Counter)
    for line in state.waiting.lines.values():
        rows = rows_of(state, line)
        if rows:
            counts[line.key.queue][reason_of(state, line, rows[0])] += len(rows)
    for members in state.gangs.by_name.values():
        # Members of a gang that stands in line are counted with its line above.
        if not state.stands_in_line(members):
            for row in members.waiting:
                counts[state.queue_of(row)][INCOMPLETE] += 1
    states = state.store.tables.pods[layout.POD_STATE, : len(state.pods.pods)]
    for row in np.flatnonzero(states == PodState.BACKOFF).tolist():
        counts[state.queue_of(row)][BACKOFF] += 1
    for nomination in state.departures.nominations.values():
        for row in nomination.rows if nomination.rows[0] not in state.replacements else ():
            counts[state.queue_of(row)][kept_for(nomination)] += 1
    return counts


def kept_for(nomination: Nomination) -> str:
    """Why work waits for which a place is kept."""
    return RESERVED if nomination.reserved else NOMINATED


def rows_of(state: EngineState, line: Line) -> list[int]:
    """The pods that wait in a line."""
    if line.key.gang is not None:
        return state.workloads.first_of(line).rows
    waiting = (row for *_, sequence, _, row in line.waiting if state.waiting.is_waiting(line, sequence, row))
    # A pod that was described anew may have come back into its line.
    return list(dict.fromkeys(waiting))


def reason_of(state: EngineState, line: Line, row: int) -> str:
    """Why the pods of a line wait, of which this is one."""
    bar = state.gate.bar(row)
    if bar is not None:
        return bar.why
    if not line.parked:
        return TURN
    if line not in state.waiting.kept_out:
        return NODES
    lacks_room = state.waiting.waits_for_room(line.key)
    return NODES if lacks_room and state.gate.shortage(row) is None else QUOTA
