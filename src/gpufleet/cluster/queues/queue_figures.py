"""What the engine says of each queue, put together: its report, its fair share, and what it remembers."""

import msgspec

from gpufleet.cluster.queues import immunity_records, learned_records, nomination_records, reservation_records
from gpufleet.engine.event import PastUseOf
from gpufleet.engine.explanations.queue_report import QueueUse
from gpufleet.engine.instruction import QueueBar
from gpufleet.engine.queueing.decay import FRACTION_BITS
from gpufleet.engine.queueing.fair_shares import FairShare
from gpufleet.engine.scheduler import Engine
from gpufleet.kube.objects.fleet_queues import (
    LearnedRunTimeStatus,
    NominationStatus,
    PastUseStatus,
    ReservationStatus,
)
from gpufleet.model.identifiers import QueueName, QuotaResource


class ResourceFigures(msgspec.Struct, frozen=True):
    """One resource of one queue, in the resource's own unit."""

    resource: QuotaResource
    used: int
    borrowed: int = 0
    lent: int = 0
    owed: int | None = None
    decayed: int | None = None
    nominal: int = 0
    protected: int = 0


class QueueFigures(msgspec.Struct, frozen=True):
    """One queue: ``bar`` is why no work of it may start."""

    queue: QueueName
    resources: tuple[ResourceFigures, ...] = ()
    pending: dict[str, int] = {}
    bar: QueueBar | None = None
    share_milli: int | None = None
    dominant: QuotaResource | None = None
    past_use: tuple[PastUseStatus, ...] = ()
    reservation: ReservationStatus | None = None
    nominations: tuple[NominationStatus, ...] = ()
    learned_run_times: tuple[LearnedRunTimeStatus, ...] = ()
    immune_pods: tuple[str, ...] = ()


def figures_of(engine: Engine) -> list[QueueFigures]:
    """Every queue that is described. Costs the whole tree, and a look at every pod."""
    shares = {one.queue: one for one in engine.fair_shares()}
    past: dict[QueueName, dict[QuotaResource, PastUseOf]] = {}
    for one in engine.past_use().uses:
        past.setdefault(one.queue, {})[one.resource] = one
    reserved = {one.queue: reservation_records.written(one) for one in engine.reservations()}
    nominated = nomination_records.written(engine.kept_places())
    learned = learned_records.written(engine.learned_run_times())
    immune = immunity_records.written(engine.immune_pods())
    return [
        msgspec.structs.replace(
            _figures(use, shares.get(use.queue), past.get(use.queue, {}), reserved.get(use.queue)),
            nominations=nominated.get(use.queue, ()),
            learned_run_times=learned.get(use.queue, ()),
            immune_pods=immune.get(use.queue, ()),
        )
        for use in engine.queue_report()
        if use.is_described
    ]


def _figures(
    use: QueueUse,
    share: FairShare | None,
    past: dict[QuotaResource, PastUseOf],
    reservation: ReservationStatus | None,
) -> QueueFigures:
    owed = {} if share is None else {one.resource: one.owed for one in share.amounts}
    resources = tuple(
        ResourceFigures(
            one.resource,
            one.used,
            one.borrowed,
            one.lent,
            owed.get(one.resource),
            _decayed(past.get(one.resource)),
            one.nominal,
            one.protected,
        )
        for one in use.resources
    )
    return QueueFigures(
        use.queue,
        resources,
        use.pending,
        use.bar,
        None if share is None else share.share_milli,
        None if share is None else share.dominant,
        tuple(PastUseStatus(one.resource, one.at_us, one.used, one.value, one.area) for one in past.values()),
        reservation,
    )


def _decayed(past: PastUseOf | None) -> int | None:
    """Past usage in whole units, as it counted when something last changed."""
    return None if past is None else max(0, int(past.value)) >> FRACTION_BITS
