"""The status of a FleetQueue: what the engine reports of a queue, in the words and units of its quotas.

``scheduler.queue_status_writer`` says when it is written.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from gpufleet.kube.codec.quota_amounts import written_amount
from gpufleet.kube.objects.fleet_queues import (
    ACTIVE,
    NAMESPACES_CLEAR,
    WITHIN_BUDGET,
    Condition,
    FleetQueueStatus,
    LearnedRunTimeStatus,
    NominationStatus,
    PastUseStatus,
    PendingReason,
    PendingStatus,
    ReservationStatus,
    ResourceStatus,
)
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.quantity import NANO_PER_MILLI, Quantity

MESSAGE_LENGTH_MAX = 1024
"""Longer messages of conditions are cut: people read them in a line of kubectl."""

OURS = (ACTIVE, NAMESPACES_CLEAR, WITHIN_BUDGET)
"""The conditions that the scheduler writes; all others in a status are left as they are."""


class ResourceFigures(Protocol):
    """What a queue has of one resource, in the resource's unit."""

    @property
    def resource(self) -> QuotaResource:
        """The resource."""
        ...

    @property
    def used(self) -> int:
        """What everything below the queue holds."""
        ...

    @property
    def owed(self) -> int | None:
        """What it would have if all were divided anew."""
        ...

    @property
    def decayed(self) -> int | None:
        """The queue's past usage; None without a half-life."""
        ...

    @property
    def borrowed(self) -> int:
        """What of that is others' quota."""
        ...

    @property
    def lent(self) -> int:
        """What others hold of its own."""
        ...

    @property
    def protected(self) -> int:
        """What work that is never evicted holds of its own."""
        ...


class QueueFigures(Protocol):
    """What is to be told of one queue."""

    @property
    def resources(self) -> Sequence[ResourceFigures]:
        """What it has of each resource."""
        ...

    @property
    def pending(self) -> Mapping[str, int]:
        """Waiting pods by reason."""
        ...

    @property
    def share_milli(self) -> int | None:
        """The queue's dominant share divided by its weight; None where the queue comes after all others."""
        ...

    @property
    def dominant(self) -> QuotaResource | None:
        """The resource of which that is the share; None where nothing is borrowed."""
        ...

    @property
    def past_use(self) -> Sequence[PastUseStatus]:
        """What is remembered of its past usage."""
        ...

    @property
    def reservation(self) -> ReservationStatus | None:
        """What work of it holds until it can start."""
        ...

    @property
    def nominations(self) -> Sequence[NominationStatus]:
        """The places that its work gets when others have left them."""
        ...

    @property
    def learned_run_times(self) -> Sequence[LearnedRunTimeStatus]:
        """What was learned of how long its work runs."""
        ...

    @property
    def immune_pods(self) -> Sequence[str]:
        """The uids of the pods that are not evicted for its work."""
        ...


class QueueCondition(msgspec.Struct, frozen=True):
    """Whether something holds of a queue: a condition without its times."""

    type: str
    holds: bool
    reason: str
    message: str


def queue_status(
    before: FleetQueueStatus,
    conditions_now: Sequence[QueueCondition],
    figures: QueueFigures,
    generation: int,
    now: dt.datetime,
    local_name_in: tuple[str, ...] = (),
) -> FleetQueueStatus:
    """The status to be written on top of the one that is there; equal to it where nothing is new."""
    return FleetQueueStatus(
        observed_generation=generation,
        conditions=_conditions(before, conditions_now, generation, now),
        share=None if figures.share_milli is None else str(Quantity(figures.share_milli * NANO_PER_MILLI)),
        dominant_resource=figures.dominant,
        resources=tuple(_resource(one) for one in figures.resources),
        past_use=tuple(figures.past_use),
        pending=PendingStatus(
            sum(figures.pending.values()),
            tuple(PendingReason(reason, pods) for reason, pods in sorted(figures.pending.items())),
        ),
        reservation=figures.reservation,
        nominations=tuple(figures.nominations),
        learned_run_times=tuple(figures.learned_run_times),
        immune_pods=tuple(figures.immune_pods),
        local_name_in=local_name_in,
    )


def _resource(one: ResourceFigures) -> ResourceStatus:
    def amount(units: int | None) -> str | None:
        return None if units is None else written_amount(one.resource, units)

    return ResourceStatus(
        one.resource,
        used=amount(one.used),
        borrowed=amount(one.borrowed),
        lent=amount(one.lent),
        fair_share=amount(one.owed),
        decayed=amount(one.decayed),
        protected=amount(one.protected or None),
    )


def conditions_alone(
    before: FleetQueueStatus,
    conditions_now: Sequence[QueueCondition],
    generation: int | None,
    now: dt.datetime,
) -> FleetQueueStatus:
    """The status that is there with these conditions, for a queue of which the engine knows nothing new."""
    told = _conditions(before, conditions_now, generation, now)
    return msgspec.structs.replace(before, observed_generation=generation, conditions=told)


def _conditions(
    before: FleetQueueStatus,
    conditions_now: Sequence[QueueCondition],
    generation: int | None,
    now: dt.datetime,
) -> tuple[Condition, ...]:
    """Ours anew, and those of others as they stand."""
    told = {one.type: one for one in before.conditions}
    found = [one for one in before.conditions if one.type not in OURS]
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for one in conditions_now:
        status = "True" if one.holds else "False"
        last = told.get(one.type)
        # By Kubernetes' conventions only a change of the status moves this time.
        since = last.last_transition_time if last is not None and last.status == status else None
        message = one.message[:MESSAGE_LENGTH_MAX]
        found.append(Condition(one.type, status, one.reason, message, since or moment, generation))
    # In one order, so that a status that says the same is equal and not written again.
    return tuple(sorted(found, key=lambda condition: condition.type))


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _Patch(msgspec.Struct, frozen=True):
    metadata: _Version
    status: dict[str, object]


_ENCODER = msgspec.json.Encoder()


def status_patch(status: FleetQueueStatus, resource_version: str) -> bytes:
    """A merge patch of the status on this version of the object, and no other.

    What is absent is taken away, so that no other writer's words stay among ours.
    """
    written = msgspec.to_builtins(status)
    absent = dict.fromkeys(field.encode_name for field in msgspec.structs.fields(status))
    return _ENCODER.encode(_Patch(_Version(resource_version), {**absent, **written}))


def nominations_patch(nominations: Sequence[NominationStatus], resource_version: str) -> bytes:
    """A merge patch of the nominations alone on this version of the object, and no other."""
    written = msgspec.to_builtins(nominations)
    return _ENCODER.encode(_Patch(_Version(resource_version), {"nominations": written}))
