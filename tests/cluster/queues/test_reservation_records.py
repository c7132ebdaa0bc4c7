"""A reservation in the status of its queue: what is written is read again, within the definition's limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cluster.queues.reservation_records import (
    DEVICES_MAX,
    PLACES_MAX,
    WAITED_FOR_MAX,
    moment,
    read,
    written,
)
from gpufleet.engine.instruction import Reservation, ReservedPlace
from gpufleet.kube.objects.fleet_queues import ReservationStatus
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName

TEAM = QueueName("team")
END_OF_9998_US = 253_370_764_800 * 10**6
"""``date -u -d 9999-01-01 +%s``: from then on no moment is written."""


def reservation(places: int = 1, devices: int = 1, waits_for: int = 0, since_us: int = 5) -> Reservation:
    """So many places with so many devices each."""
    held = tuple(DeviceId(f"GPU-{number}") for number in range(devices))
    return Reservation(
        GangName("gang"),
        "team-a/gang",
        TEAM,
        since_us,
        None,
        tuple(ReservedPlace(PodUid(f"p{number}"), NodeName("n"), held) for number in range(places)),
        tuple(PodUid(f"w{number}") for number in range(waits_for)),
    )


@given(st.integers(1, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 10**16))
def test_what_is_written_is_read_again(places: int, devices: int, waits_for: int, since_us: int) -> None:
    told = reservation(places, devices, waits_for, since_us)
    assert read(written(told), TEAM) == told


@pytest.mark.parametrize(
    ("fits", "told"),
    [
        (True, reservation(PLACES_MAX)),
        (False, reservation(PLACES_MAX + 1)),
        (True, reservation(8, DEVICES_MAX // 8)),
        (False, reservation(8, DEVICES_MAX // 8 + 1)),
        (True, reservation(waits_for=WAITED_FOR_MAX)),
        (False, reservation(waits_for=WAITED_FOR_MAX + 1)),
    ],
)
def test_what_is_too_large_is_written_without_its_places_and_sought_anew(
    fits: bool, told: Reservation
) -> None:
    status = written(told)
    assert (status.holder, status.name) == ("gang", "team-a/gang")
    assert bool(status.places) == fits
    assert (read(status, TEAM) is not None) == fits


def test_without_a_time_that_can_be_read_there_is_no_reservation() -> None:
    status = written(reservation())
    assert read(ReservationStatus(status.holder, status.name, "yesterday", None, status.places), TEAM) is None


@pytest.mark.parametrize(
    ("at_us", "text"),
    [
        (None, None),
        (-1, None),
        (0, "1970-01-01T00:00:00.000000Z"),
        (END_OF_9998_US - 1, "9998-12-31T23:59:59.999999Z"),
        (END_OF_9998_US, None),
    ],
)
def test_a_moment_has_a_year_of_four_digits_or_none(at_us: int | None, text: str | None) -> None:
    assert moment(at_us) == text
