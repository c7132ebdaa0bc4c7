"""What the engine says of the queues, on the cluster as it is.

It is told everything in two steps: first what has a place, which is all that counts as used; then the pods
that wait, so that it says what keeps each of them waiting. What it would start now is not in use yet: it
*starts*.
"""

import msgspec

from gpufleet.cluster.engine_of_settings import engine_of
from gpufleet.cluster.engine_time import EngineTime
from gpufleet.cluster.facts import Facts
from gpufleet.engine.event import Event, PodAdded, ReservationsRecalled
from gpufleet.engine.explanations.queue_report import QueueUse
from gpufleet.engine.explanations.waiting_order import Queued
from gpufleet.engine.instruction import Bind
from gpufleet.engine.queueing.fair_shares import FairShare
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import PodUid, QueueName

STARTS = "starts"
"""Beside the reasons of ``engine.explanations.queue_report``: nothing keeps it from starting."""


OF_WAITING_WORK = (PodAdded, ReservationsRecalled)
"""These events come second: all that has a place counts as used before."""


class QueueCounts(msgspec.Struct, frozen=True):
    """Every queue in the order of the tree: in use, waiting, owed; ``starting`` would be bound at once."""

    uses: dict[QueueName, QueueUse]
    pending: dict[QueueName, dict[str, int]]
    shares: dict[QueueName, FairShare]
    waiting: dict[QueueName, list[Queued]]
    starting: dict[QueueName, list[PodUid]]
    engine: Engine


def count_queues(facts: Facts) -> QueueCounts:
    """Ask a new engine, which is told what a scheduler would be told after a restart."""
    engine = engine_of(facts.settings)
    at_us = EngineTime(facts.clock).now_us()
    first, *later = facts.waves
    engine.step(at_us, [event for event in first if not isinstance(event, OF_WAITING_WORK)])
    used = {one.queue: one for one in engine.queue_report()}
    bound: list[PodUid] = []
    for number, wave in enumerate([_arrivals(first), *later], 1):
        said = engine.step(at_us + number, wave)
        bound += [one.uid for one in said if isinstance(one, Bind)]
    after = {one.queue: one for one in engine.queue_report()}
    starting = _by_queue(engine, bound)
    waiting: dict[QueueName, list[Queued]] = {}
    for one in engine.line_up():
        waiting.setdefault(one.queue, []).append(one)
    return QueueCounts(
        {name: used.get(name) or _unused(use) for name, use in after.items()},
        {name: _pending(use, starting.get(name, [])) for name, use in after.items()},
        {one.queue: one for one in engine.fair_shares()},
        waiting,
        starting,
        engine,
    )


def _arrivals(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, OF_WAITING_WORK)]


def _by_queue(engine: Engine, bound: list[PodUid]) -> dict[QueueName, list[PodUid]]:
    found: dict[QueueName, list[PodUid]] = {}
    for uid in bound:
        found.setdefault(engine.state.queue_of(engine.state.pods.row_by_uid[uid]), []).append(uid)
    return found


def _pending(use: QueueUse, starting: list[PodUid]) -> dict[str, int]:
    return {**use.pending, STARTS: len(starting)} if starting else use.pending


def _unused(use: QueueUse) -> QueueUse:
    """A queue that the engine knows only from the pods that wait in it: it uses nothing."""
    return msgspec.structs.replace(use, resources=())
