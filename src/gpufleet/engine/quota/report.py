"""What there is to say of each queue at any time: its limits, what it uses, and why its work waits."""

import msgspec

from gpufleet.engine import layout
from gpufleet.engine.books import Books
from gpufleet.engine.instruction import QueueBar
from gpufleet.engine.layout import PodState
from gpufleet.engine.quota.available import binding_limit
from gpufleet.engine.waiting import Line, LineKey
from gpufleet.model.identifiers import QueueName, QuotaResource

BACKOFF = "backoff"
INCOMPLETE = "incomplete-gang"
QUOTA = "quota"
NODES = "nodes"
TURN = "turn"
"""Why pods wait: a pause after a refused bind, members that have not come, quota, no node with room,
or work before them in a strict queue. Besides, each value of ``WhyBarred``.
"""


class ResourceUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource of one queue, in the resource's own unit.

    ``used`` is everything below the queue. ``borrowed`` is what it has of others' quota, ``lent`` what
    others have of its own: where several lend, each in proportion to what it has idle. ``available``
    is what one workload could still be charged, None where nothing limits it.
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


class QueueUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One queue. ``pending`` counts waiting pods by reason, those of queues below it left out."""

    queue: QueueName
    parent: QueueName | None
    bar: QueueBar | None
    resources: tuple[ResourceUse, ...]
    pending: dict[str, int]
    is_described: bool = True


def queue_report(books: Books) -> tuple[QueueUse, ...]:
    """Every queue that is described or has pods, parents before children, siblings by name."""
    if not books.queues.is_active:
        return ()
    tree = books.queues.tree
    pending = _pending(books)
    level = sorted(
        (row for row in tree.row_by_name.values() if tree.parent[row] == layout.NOT_SET), key=tree.name_at
    )
    found: list[QueueUse] = []
    while level:
        row = level.pop(0)
        found.append(_use(books, row, pending.get(tree.name_at(row), {})))
        level = sorted(tree.children(row), key=tree.name_at) + level
    return tuple(found)


def _use(books: Books, row: int, pending: dict[str, int]) -> QueueUse:
    tree = books.queues.tree
    columns = sorted(tree.resources.column_by_name.items())
    uses = tuple(
        _resource_use(books, row, resource, column)
        for resource, column in columns
        if books.store.tables.queue_limits[layout.LIMIT_POOLED, row, column]
        or books.store.tables.queue_total[row, column]
    )
    bar = tree.bar(row)
    return QueueUse(tree.name_at(row), tree.queue_at(row).parent, bar, uses, pending, tree.is_described(row))


def _resource_use(books: Books, row: int, resource: QuotaResource, column: int) -> ResourceUse:
    tables = books.store.tables
    limits = tables.queue_limits[:, row, column].tolist()
    left = int(binding_limit(tables, row, column)[0])

    def stated(kind: int) -> int | None:
        return None if limits[kind] == layout.NO_LIMIT else int(limits[kind])

    return ResourceUse(
        resource,
        limits[layout.LIMIT_NOMINAL],
        int(tables.queue_total[row, column]),
        _borrowed(books, row, column),
        _lent(books, row, column),
        None if left == layout.NO_LIMIT else max(0, left),
        stated(layout.LIMIT_BORROWING),
        stated(layout.LIMIT_LENDING),
        stated(layout.LIMIT_HARD),
    )


def _borrowed(books: Books, row: int, column: int) -> int:
    tables, tree = books.store.tables, books.queues.tree
    if not tree.named[row, column] or tree.parent[row] == layout.NOT_SET:
        return 0
    return max(0, int(tables.queue_counted[row, column] - tree.subtree[row, column]))


def _idle(books: Books, row: int, column: int) -> int:
    """What a queue lends and does not use itself."""
    tables, tree = books.store.tables, books.queues.tree
    if not tables.queue_limits[layout.LIMIT_POOLED, row, column]:
        return 0
    kept = max(int(tree.guaranteed[row, column]), int(tables.queue_counted[row, column]))
    return max(0, int(tree.subtree[row, column]) - kept)


def _lent(books: Books, row: int, column: int) -> int:
    """What the siblings have borrowed beyond what their parent has itself, as far as it is this one's."""
    tree = books.queues.tree
    parent = int(tree.parent[row])
    if parent == layout.NOT_SET:
        return 0
    idle = {child: _idle(books, child, column) for child in tree.children(parent)}
    taken = sum(_borrowed(books, child, column) for child in tree.children(parent))
    taken = min(sum(idle.values()), max(0, taken - int(tree.nominal[parent, column])))
    if not taken or not idle[row]:
        return 0
    # The last of the lenders makes up for what rounding down leaves.
    lenders = [child for child in idle if idle[child]]
    parts = {child: taken * idle[child] // sum(idle.values()) for child in lenders}
    parts[lenders[-1]] += taken - sum(parts.values())
    return parts[row]


def _pending(books: Books) -> dict[QueueName, dict[str, int]]:
    """Waiting pods by queue and reason."""
    counts: dict[QueueName, dict[str, int]] = {}
    by_line: dict[LineKey, str] = {}
    for row, pod in enumerate(books.pods.pods):
        if pod is None:
            continue
        state = books.pods.state(row)
        if state in {PodState.WAITING, PodState.BACKOFF}:
            reason = BACKOFF if state is PodState.BACKOFF else _reason(books, row, by_line)
            by_reason = counts.setdefault(books.queue_of(row), {})
            by_reason[reason] = by_reason.get(reason, 0) + 1
    return {queue: dict(sorted(by_reason.items())) for queue, by_reason in counts.items()}


def _reason(books: Books, row: int, by_line: dict[LineKey, str]) -> str:
    """Why this pod waits; a line that is parked waits as a whole, and is asked once."""
    bar = books.gate.bar(row)
    if bar is not None:
        return bar.why
    line = books.line_with(row)
    if line is None:
        return INCOMPLETE
    if not line.parked:
        return TURN
    if line.key not in by_line:
        by_line[line.key] = QUOTA if _lacks_quota(books, line, row) else NODES
    return by_line[line.key]


def _lacks_quota(books: Books, line: Line, row: int) -> bool:
    if line.key not in books.waiting.kept_out:
        return False
    return not books.waiting.waits_for_room(line.key) or books.gate.shortage(row) is not None
