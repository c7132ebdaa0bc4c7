"""All work that waits, queue by queue, in the order in which its turn comes.

Costs a look at every waiting pod, so no decision asks for it; ``queue_report`` counts the same workloads,
``turns`` says which queue goes before which.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.explanations.queue_report import BACKOFF, INCOMPLETE, kept_for, reason_of, rows_of
from gpufleet.engine.lifecycle.engine_state import EngineState, turn_us
from gpufleet.engine.queueing.line import Head
from gpufleet.model.identifiers import GangName, PodUid, QueueName


class Queued(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload that waits: a gang, or a pod of no gang; ``uid`` is that of its first waiting pod.

    ``position`` counts from 1 in its queue, work for which a place is kept first; None for a gang
    that takes no turns because members have not come. ``reason`` is a word of ``queue_report``.
    """

    queue: QueueName
    uid: PodUid
    gang: GangName | None
    pods: int
    priority: int
    reason: str
    position: int | None = None


class _Turn(NamedTuple):
    """The order in a queue: work whose place is kept, work that takes turns, work that takes none."""

    rank: int
    head: Head


KEPT, TAKES_TURNS, TAKES_NONE = range(3)


def line_up(state: EngineState) -> tuple[Queued, ...]:
    """All workloads that wait, queues by name; empty while no queue is described."""
    if not state.queues.is_active:
        return ()
    by_queue: dict[QueueName, list[tuple[_Turn, Queued]]] = defaultdict(list)
    for turn, queued in (*_in_lines(state), *_incomplete(state), *_out_of_line(state)):
        by_queue[queued.queue].append((turn, queued))
    found: list[Queued] = []
    # By name, because the order in which lines were made would differ after a restart.
    for _, in_turn in sorted(by_queue.items()):
        in_turn.sort(key=lambda one: one[0])
        for position, (turn, queued) in enumerate(in_turn, 1):
            placed = None if turn.rank == TAKES_NONE else position
            found.append(msgspec.structs.replace(queued, position=placed))
    return tuple(found)


def _in_lines(state: EngineState) -> Iterator[tuple[_Turn, Queued]]:
    for line in state.waiting.lines.values():
        rows = rows_of(state, line)
        if not rows:
            continue
        reason, key = reason_of(state, line, rows[0]), line.key
        if key.gang is not None:
            members = state.gangs.members(key.gang)
            turn = turn_us(members), members.described.short_name, members.sequence
            head = Head(-key.priority, *turn)
            yield _Turn(TAKES_TURNS, head), _queued(state, key.queue, rows, key.gang, reason)
            continue
        for row in rows:
            yield _Turn(TAKES_TURNS, _head(state, row)), _queued(state, key.queue, [row], None, reason)


def _incomplete(state: EngineState) -> Iterator[tuple[_Turn, Queued]]:
    for name, members in state.gangs.by_name.items():
        rows = list(members.waiting)
        if rows and not state.stands_in_line(members):
            turn = _Turn(TAKES_NONE, _head(state, rows[0]))
            yield turn, _queued(state, state.queue_of(rows[0]), rows, name, INCOMPLETE)


def _out_of_line(state: EngineState) -> Iterator[tuple[_Turn, Queued]]:
    """Pods that pause, and workloads for which places are kept."""
    states = state.store.tables.pods[layout.POD_STATE, : len(state.pods.pods)]
    for row in np.flatnonzero(states == PodState.BACKOFF).tolist():
        gang = state.pods.pod_at(row).gang
        yield (
            _Turn(TAKES_TURNS, _head(state, row)),
            _queued(state, state.queue_of(row), [row], gang, BACKOFF),
        )
    for nomination in state.departures.nominations.values():
        rows = list(nomination.rows)
        # Such a place is kept for a pod that a controller has yet to make, so no pod waits for it.
        if rows[0] in state.replacements:
            continue
        queue = state.queue_of(rows[0])
        gang, reason = state.pods.pod_at(rows[0]).gang, kept_for(nomination)
        yield _Turn(KEPT, _head(state, rows[0])), _queued(state, queue, rows, gang, reason)


def _head(state: EngineState, row: int) -> Head:
    pod = state.pods.pod_at(row)
    return Head(-pod.priority, pod.created_at_us, pod.name, state.sequence_by_row[row])


def _queued(
    state: EngineState, queue: QueueName, rows: list[int], gang: GangName | None, reason: str
) -> Queued:
    uid, priority = state.pods.pod_at(rows[0]).uid, state.workloads.ranked(rows[0]).priority
    return Queued(queue, uid, gang, len(rows), priority, reason)
