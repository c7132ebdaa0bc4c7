"""Rows of the view of queues: those of ``gpufleet queues``, without the work that a person may not see."""

from gpufleet.explain.queue_answer import QueueRow as Told
from gpufleet.explain.queue_answer import ReservationRow, WaitingRow
from gpufleet.explain.queue_phrases import queue_words, waiting_words
from gpufleet.overview.rows.known import Known
from gpufleet.web.documents import QueueRow, WaitingWork
from gpufleet.web.rights import Rights

WAITING_MAX = 50
"""The work of a queue that its row names; all of it is in the view of work."""


def queue_rows(known: Known, rights: Rights) -> list[QueueRow]:
    """A row for each queue, parents before their children; none where they were not asked for."""
    if known.engine_report is None or not rights.queues:
        return []
    depths: dict[str, int] = {}
    found = []
    for row in known.engine_report.queues.queues:
        depths[row.name] = depths.get(row.parent or "", -1) + 1
        found.append(_row(row, depths[row.name], rights))
    return found


def _row(row: Told, depth: int, rights: Rights) -> QueueRow:
    seen = [one for one in row.waiting or () if rights.sees(one.namespace)]
    held = _reservation(row.reservation, rights)
    waiting = tuple(_waiting(one, row.reservation, rights) for one in seen[:WAITING_MAX])
    problem = f": {row.problems[0].message}" if row.problems and not row.active else ""
    return QueueRow(
        row.name,
        row.parent or "",
        depth,
        row.active,
        "Open" if row.policy is None else row.policy.state,
        f"{queue_words(row)}{problem}",
        row.problems,
        row.resources,
        row.share,
        "1" if row.policy is None else row.policy.weight,
        row.pods_waiting,
        None if row.waiting is None else waiting,
        max(0, len(seen) - WAITING_MAX),
        len(row.waiting or ()) - len(seen),
        held,
    )


def _reservation(held: ReservationRow | None, rights: Rights) -> ReservationRow | None:
    """The reservation; without the name of work that the person may not see."""
    if held is None or rights.sees(held.namespace):
        return held
    return ReservationRow(held.kind, "", "", held.nodes, held.since, held.expected_start)


def _waiting(one: WaitingRow, held: ReservationRow | None, rights: Rights) -> WaitingWork:
    is_reserved = held is not None and (held.kind, held.namespace, held.name) == (
        one.kind,
        one.namespace,
        one.name,
    )
    # Who else's reservation keeps it off may be work of another namespace.
    words = waiting_words(one) if rights.namespaces is None else waiting_words(_without_why(one))
    return WaitingWork(
        one.kind,
        one.namespace,
        one.name,
        one.pods,
        one.position,
        one.priority,
        one.created,
        one.reason,
        one.cause,
        words,
        held.expected_start if held is not None and is_reserved else None,
    )


def _without_why(one: WaitingRow) -> WaitingRow:
    return WaitingRow(
        one.kind,
        one.namespace,
        one.name,
        one.pods,
        one.priority,
        one.reason,
        one.position,
        one.created,
        cause=one.cause,
    )
