"""What parking remembers, on the workload itself: where it is, since when, and what to give back.

The stamp is one annotation, written together with what it speaks of, so that no kill leaves a workload at
zero without the number that it had. A deadline is a moment and not a length: no restart moves it.
"""

import datetime as dt
import enum

import msgspec

from gpufleet.kube.codec.times import microseconds
from gpufleet.model.model_errors import InputError

US_PER_S = 10**6


class ParkingPhase(enum.Enum):
    """Where a workload is; one without a stamp runs.

    WARNED: it is idle, and its owner was told when it is parked. PARKED: it runs no pod. WAKING: it was told
    to come back, and its pods do not all run yet.
    """

    WARNED = "Warned"
    PARKED = "Parked"
    WAKING = "Waking"


class ParkingCause(enum.Enum):
    """Why a workload is parked."""

    IDLE = "Idle"
    ASKED = "Asked"


class ParkingStamp(msgspec.Struct, frozen=True):
    """Moments in microseconds since 1970; 0 for one that there is none of.

    ``park_at_us`` is when a warned workload is parked, ``idle_since_us`` since when it did nothing.
    ``replicas`` is how many pods it comes back with, None where its kind keeps that itself; ``gpus`` how many
    devices it held.
    """

    phase: ParkingPhase
    since_us: int
    park_at_us: int = 0
    idle_since_us: int = 0
    replicas: int | None = None
    gpus: int = 0
    cause: ParkingCause = ParkingCause.IDLE


class _Written(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The stamp as it stands in the annotation: times as people read them."""

    phase: ParkingPhase
    since: str
    park_at: str | None = None
    idle_since: str | None = None
    replicas: int | None = None
    gpus: int = 0
    cause: ParkingCause = ParkingCause.IDLE


def written_stamp(stamp: ParkingStamp) -> str:
    """The text of the annotation; moments lose what is less than a second."""
    return msgspec.json.encode(
        _Written(
            stamp.phase,
            time_text(stamp.since_us),
            time_text(stamp.park_at_us) if stamp.park_at_us else None,
            time_text(stamp.idle_since_us) if stamp.idle_since_us else None,
            stamp.replicas,
            stamp.gpus,
            stamp.cause,
        )
    ).decode()


def read_stamp(text: str | None, field: str) -> ParkingStamp | None:
    """The stamp of an annotation, None without one. Raises InputError for what is none."""
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=_Written)
        since_us, park_at_us = microseconds(found.since), microseconds(found.park_at)
        idle_since_us = microseconds(found.idle_since)
    except (msgspec.DecodeError, InputError) as error:
        expected = "what gpufleet wrote; take the annotation away to begin anew"
        raise InputError("not a stamp of parking", field=field, value=text, expected=expected) from error
    if found.replicas is not None and found.replicas < 0:
        raise InputError("less than no pod", field=field, value=text, expected="replicas of at least 0")
    return ParkingStamp(
        found.phase, since_us, park_at_us, idle_since_us, found.replicas, found.gpus, found.cause
    )


def time_text(at_us: int) -> str:
    """A moment in whole seconds, as the API writes it."""
    moment = dt.datetime.fromtimestamp(at_us // US_PER_S, dt.UTC)
    return moment.isoformat().replace("+00:00", "Z")
