"""A queue's reservation as it is written into the status of its FleetQueue, and read from there by the next
leader: so that work that waits for long does not lose its place when leaders change.

A reservation that is too large for a status is written without its places: the next leader seeks them anew.
What was written is checked by the engine (``engine.reserve.restoring``), like everything that others may
have written.
"""

import datetime as dt

from gpufleet.engine.instruction import Reservation, ReservedPlace
from gpufleet.kube.codec.times import micro_time, microseconds
from gpufleet.kube.objects.fleet_queues import ReservationStatus, ReservedPlaceStatus
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.model_errors import InputError

PLACES_MAX = 1024
DEVICES_MAX = 8192
WAITED_FOR_MAX = 4096
"""The limits of the definition of FleetQueue; all together stay far below what the API server stores."""

START_OF_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST_US = int((dt.datetime(9999, 1, 1, tzinfo=dt.UTC) - START_OF_1970).total_seconds()) * 10**6
"""Later moments have no form of four digits for the year, which the API's times need."""


def written(reservation: Reservation) -> ReservationStatus:
    """What the status says of a reservation."""
    since, start = moment(reservation.since_us), moment(reservation.start_us)
    if _is_too_large(reservation):
        return ReservationStatus(str(reservation.holder), reservation.name, since, start)
    places = tuple(
        ReservedPlaceStatus(one.uid, one.node, tuple(str(device) for device in one.devices))
        for one in reservation.places
    )
    return ReservationStatus(
        str(reservation.holder), reservation.name, since, start, places, reservation.waits_for
    )


def _is_too_large(reservation: Reservation) -> bool:
    devices = sum(len(one.devices) for one in reservation.places)
    return (
        len(reservation.places) > PLACES_MAX
        or devices > DEVICES_MAX
        or len(reservation.waits_for) > WAITED_FOR_MAX
    )


def read(status: ReservationStatus, queue: QueueName) -> Reservation | None:
    """What an earlier leader wrote; None where there are no places, or no time that can be read."""
    try:
        since_us = microseconds(status.since)
    except InputError:
        return None
    places = tuple(
        ReservedPlace(PodUid(one.pod), NodeName(one.node), tuple(map(DeviceId, one.devices)))
        for one in status.places
    )
    waits_for = tuple(map(PodUid, status.waits_for))
    holder = GangName(status.holder)
    return Reservation(holder, status.name, queue, since_us, None, places, waits_for) if places else None


def moment(at_us: int | None) -> str | None:
    """A moment as the API writes it; None where it is unknown, or beyond all calendars."""
    if at_us is None or not 0 <= at_us < LATEST_US:
        return None
    return micro_time(START_OF_1970 + dt.timedelta(microseconds=at_us))
