"""Reservations in the answer about queues: their holders, and the work that they keep off."""

import msgspec

from gpufleet.cluster.queues.reservation_records import written
from gpufleet.engine.explanations.reservation_words import nodes_words
from gpufleet.engine.explanations.waiting_order import Queued
from gpufleet.engine.instruction import Reservation
from gpufleet.engine.scheduler import Engine
from gpufleet.explain.queue_answer import ReservationRow
from gpufleet.explain.queue_words import reservation_row
from gpufleet.explain.reservation_causes import holder_words, until_words
from gpufleet.kube.codec.field_path import harmless


def row_of(told: Reservation) -> ReservationRow:
    """The row of a reservation, as the engine tells it."""
    nodes = len({place.node for place in told.places})
    return msgspec.structs.replace(reservation_row(written(told)), nodes=nodes)


def why_kept_off(engine: Engine, queued: Queued) -> str:
    """The reservation that keeps a workload off, in words; "" where none does."""
    if queued.gang is None:
        verdict = engine.explain(queued.uid)
    else:
        said = engine.explain_gang(queued.gang)
        verdict = None if said is None else said.verdict
    other = None if verdict is None else verdict.kept_off_by
    if other is None:
        return ""
    holder = f"{holder_words(other)} of queue {harmless(other.queue)}"
    return f"{holder} holds a reservation of {nodes_words(other)}, {until_words(other)}"
