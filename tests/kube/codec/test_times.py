"""Every time that somebody managed to store becomes a number, the right one where there is one."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube.codec.times import microseconds
from gpufleet.model.model_errors import InputError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(EPOCH.replace(tzinfo=None, year=1971), timezones=ZONES).filter(
    lambda moment: moment.year < 9999
)


@given(MOMENTS)
def test_a_time_is_what_the_calendar_says(moment: datetime) -> None:
    assert microseconds(moment.isoformat()) == (moment - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+00:00"),
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00+00:00"),
        ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.500000+00:00"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),
        ("0001-01-01T00:00:00Z", "1970-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00+00:00"),
    ],
)
def test_odd_times_are_read_by_a_written_rule(text: str, moment: str) -> None:
    assert microseconds(text) == (datetime.fromisoformat(moment) - EPOCH) // timedelta(microseconds=1)


def test_an_unset_time_is_the_first() -> None:
    assert microseconds(None) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01",
        "\u0662026-01-01T00:00:00Z",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        microseconds(text)
