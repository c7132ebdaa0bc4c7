"""Everybody who waits, queue by queue, in the order in which their turn comes: what people ask to see.

Costs a look at every waiting pod, so no decision asks for it; ``report`` counts the same workloads, ``turns``
says which queue goes before which.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from gpufleet.engine.admit.waiting import Head
from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.lifecycle.books import Books, gang_key, turn_us
from gpufleet.engine.state.members import Members
from gpufleet.engine.tell.queue_report import BACKOFF, INCOMPLETE, kept_for, reason_of, rows_of
from gpufleet.model.identifiers import GangName, PodUid, QueueName


class Queued(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload that waits: a gang, or a pod of no gang; ``uid`` is that of its first waiting pod.

    ``position`` counts from 1 in its queue, those for whom a place is kept among the first; None for a gang
    that takes no turns because members have not come. ``reason`` is a word of ``report``.
    """

    queue: QueueName
    uid: PodUid
    gang: GangName | None
    pods: int
    priority: int
    reason: str
    position: int | None = None


class _Turn(NamedTuple):
    """Where a workload stands: those whose place is kept, those who take turns, those who take none."""

    rank: int
    head: Head


KEPT, TAKES_TURNS, TAKES_NONE = range(3)


def line_up(books: Books) -> tuple[Queued, ...]:
    """All workloads that wait, queues by name; empty while no queue is described."""
    if not books.queues.is_active:
        return ()
    by_queue: dict[QueueName, list[tuple[_Turn, Queued]]] = defaultdict(list)
    for turn, queued in (*_in_lines(books), *_incomplete(books), *_out_of_line(books)):
        by_queue[queued.queue].append((turn, queued))
    found: list[Queued] = []
    for _, standing in sorted(by_queue.items()):
        standing.sort(key=lambda one: one[0])
        for position, (turn, queued) in enumerate(standing, 1):
            placed = None if turn.rank == TAKES_NONE else position
            found.append(msgspec.structs.replace(queued, position=placed))
    return tuple(found)


def _in_lines(books: Books) -> Iterator[tuple[_Turn, Queued]]:
    for line in books.waiting.lines.values():
        rows = rows_of(books, line)
        if not rows:
            continue
        reason, key = reason_of(books, line, rows[0]), line.key
        if key.gang is not None:
            members = books.gangs.members(key.gang)
            created_at_us = 0 if members.gang is None else turn_us(members, members.gang)
            head = Head(-key.priority, created_at_us, members.sequence)
            yield _Turn(TAKES_TURNS, head), _queued(books, key.queue, rows, key.gang, reason)
            continue
        for row in rows:
            yield _Turn(TAKES_TURNS, _head(books, row)), _queued(books, key.queue, [row], None, reason)


def _incomplete(books: Books) -> Iterator[tuple[_Turn, Queued]]:
    for name, members in books.gangs.by_name.items():
        rows = list(members.waiting)
        if rows and not _stands_in_line(books, members):
            turn = _Turn(TAKES_NONE, _head(books, rows[0]))
            yield turn, _queued(books, books.queue_of(rows[0]), rows, name, INCOMPLETE)


def _stands_in_line(books: Books, members: Members) -> bool:
    return members.gang is not None and gang_key(members.gang) in books.waiting.lines


def _out_of_line(books: Books) -> Iterator[tuple[_Turn, Queued]]:
    """Pods that pause, and workloads for which places are kept."""
    states = books.store.tables.pods[layout.POD_STATE, : len(books.pods.pods)]
    for row in np.flatnonzero(states == PodState.BACKOFF).tolist():
        gang = books.pods.pod_at(row).gang
        yield (
            _Turn(TAKES_TURNS, _head(books, row)),
            _queued(books, books.queue_of(row), [row], gang, BACKOFF),
        )
    for nomination in books.departures.nominations.values():
        rows = list(nomination.rows)
        if rows[0] in books.stand_ins:
            continue
        queue = books.queue_of(rows[0])
        reason = kept_for(nomination)
        yield _Turn(KEPT, _head(books, rows[0])), _queued(books, queue, rows, nomination.gang, reason)


def _head(books: Books, row: int) -> Head:
    pod = books.pods.pod_at(row)
    return Head(-pod.priority, pod.created_at_us, books.sequence_by_row[row])


def _queued(books: Books, queue: QueueName, rows: list[int], gang: GangName | None, reason: str) -> Queued:
    pod = books.pods.pod_at(rows[0])
    described = None if gang is None else books.gangs.members(gang).gang
    priority = pod.priority if described is None else described.priority
    return Queued(queue, pod.uid, gang, len(rows), priority, reason)
