"""When windows open. Expected moments are read from a calendar."""

from datetime import UTC, datetime

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.model.rollout_settings import Window
from gpufleet.operator.rollout.windows import check, is_open, may_begin, next_opening, opening

EVERY_FRIDAY_NIGHT = Window("0 22 * * 5", 4 * 3600, "Europe/Berlin")


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 10**6)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        # In January Berlin is one hour ahead of UTC: 22:00 there is 21:00 here.
        ("2026-01-02T20:59:59.999999", False),
        ("2026-01-02T21:00:00", True),
        ("2026-01-03T00:59:59.999999", True),
        ("2026-01-03T01:00:00", False),
        ("2026-01-01T22:00:00", False),
        # In July two hours.
        ("2026-07-03T19:59:59", False),
        ("2026-07-03T20:00:00", True),
        ("2026-07-04T00:00:00", False),
    ],
)
def test_a_window_is_open_by_the_clock_of_its_zone(moment: str, *, expected: bool) -> None:
    assert is_open(EVERY_FRIDAY_NIGHT, at(moment)) is expected


def test_a_start_that_the_clock_leaps_over_happens_right_after() -> None:
    # On 2026-03-29 in Berlin 02:00 becomes 03:00, which is 01:00 UTC.
    nightly = Window("30 2 * * *", 600, "Europe/Berlin")

    assert opening(nightly, at("2026-03-28T12:00:00")) == at("2026-03-29T01:00:00")


def test_a_start_that_the_clock_strikes_twice_happens_once() -> None:
    # On 2026-10-25 in Berlin 03:00 becomes 02:00; 02:30 is 00:30 and 01:30 UTC.
    nightly = Window("30 2 * * *", 600, "Europe/Berlin")

    assert opening(nightly, at("2026-10-24T12:00:00")) == at("2026-10-25T00:30:00")
    assert opening(nightly, at("2026-10-25T00:45:00")) == at("2026-10-26T01:30:00")


def test_the_next_of_several_windows_is_told() -> None:
    windows = (EVERY_FRIDAY_NIGHT, Window("0 3 * * 1", 3600))

    assert next_opening(windows, at("2026-01-03T12:00:00")) == at("2026-01-05T03:00:00")
    assert next_opening(windows, at("2026-01-05T03:30:00")) is None
    assert may_begin(windows, at("2026-01-05T03:30:00"))
    assert may_begin((), at("2026-01-01T00:00:00"))


@pytest.mark.parametrize(
    ("window", "field"),
    [
        (Window("0 22 * *", 60), "schedule"),
        (Window("0 22 * * * *", 60), "schedule"),
        (Window("0 25 * * *", 60), "schedule"),
        (Window("0 0 30 2 *", 60), "schedule"),
        (Window("0 22 * * 5", 60, "Europe/Nowhere"), "timeZone"),
        (Window("0 22 * * 5", 60, "../etc/passwd"), "timeZone"),
    ],
)
def test_times_and_zones_that_are_none_are_refused_by_field(window: Window, field: str) -> None:
    with pytest.raises(InputError) as refused:
        check(window)

    assert refused.value.field == field
    assert refused.value.expected


def test_a_window_that_can_be_is_taken() -> None:
    check(EVERY_FRIDAY_NIGHT)
