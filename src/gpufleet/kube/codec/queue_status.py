"""The status of a FleetQueue: what the engine reports of a queue, in the words and units of its quotas.

``scheduler.queue_telling`` says when it is written.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from gpufleet.kube.codec.quota_amounts import written_amount
from gpufleet.kube.objects.fleet_queues import (
    ACTIVE,
    NAMESPACES_CLEAR,
    Condition,
    FleetQueueStatus,
    PendingReason,
    PendingStatus,
    ResourceStatus,
)
from gpufleet.model.identifiers import QuotaResource

MESSAGE_LENGTH_MAX = 1024
OURS = (ACTIVE, NAMESPACES_CLEAR)


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
    def borrowed(self) -> int:
        """What of that is others' quota."""
        ...

    @property
    def lent(self) -> int:
        """What others hold of its own."""
        ...


class Standing(msgspec.Struct, frozen=True):
    """Whether something holds of a queue: a condition without its times."""

    type: str
    holds: bool
    reason: str
    message: str


def queue_status(
    before: FleetQueueStatus,
    standings: Sequence[Standing],
    resources: Sequence[ResourceFigures],
    pending: Mapping[str, int],
    generation: int,
    now: dt.datetime,
) -> FleetQueueStatus:
    """The status to be written on top of the one that is there; equal to it where nothing is new."""
    return FleetQueueStatus(
        observed_generation=generation,
        conditions=_conditions(before, standings, generation, now),
        resources=tuple(
            ResourceStatus(
                one.resource,
                used=written_amount(one.resource, one.used),
                borrowed=written_amount(one.resource, one.borrowed),
                lent=written_amount(one.resource, one.lent),
            )
            for one in resources
        ),
        pending=PendingStatus(
            sum(pending.values()),
            tuple(PendingReason(reason, pods) for reason, pods in sorted(pending.items())),
        ),
    )


def conditions_alone(
    before: FleetQueueStatus, standings: Sequence[Standing], generation: int | None, now: dt.datetime
) -> FleetQueueStatus:
    """The status that is there with these conditions, for a queue of which the engine knows nothing new."""
    told = _conditions(before, standings, generation, now)
    return msgspec.structs.replace(before, observed_generation=generation, conditions=told)


def _conditions(
    before: FleetQueueStatus, standings: Sequence[Standing], generation: int | None, now: dt.datetime
) -> tuple[Condition, ...]:
    """Ours anew, and those of others as they stand."""
    told = {one.type: one for one in before.conditions}
    found = [one for one in before.conditions if one.type not in OURS]
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for one in standings:
        status = "True" if one.holds else "False"
        last = told.get(one.type)
        since = last.last_transition_time if last is not None and last.status == status else None
        message = one.message[:MESSAGE_LENGTH_MAX]
        found.append(Condition(one.type, status, one.reason, message, since or moment, generation))
    return tuple(sorted(found, key=lambda condition: condition.type))


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource_version: str


class _Patch(msgspec.Struct, frozen=True):
    metadata: _Version
    status: dict[str, object]


_ENCODER = msgspec.json.Encoder()


def status_patch(status: FleetQueueStatus, uid: str, resource_version: str) -> bytes:
    """A merge patch of the status on this version of this object, and no other.

    What is absent is taken away, so that nobody else's word stays among ours.
    """
    written = msgspec.to_builtins(status)
    absent = dict.fromkeys(field.encode_name for field in msgspec.structs.fields(status))
    return _ENCODER.encode(_Patch(_Version(uid, resource_version), {**absent, **written}))
