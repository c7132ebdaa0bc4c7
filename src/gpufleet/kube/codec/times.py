"""Times of the API as integer microseconds since 1970, UTC.

They decide turns, so any time that the API server stored must become some number: a leap second is the second
after it, a missing zone is UTC, and what lies before 1970 counts as 1970.
"""

import datetime as dt
import functools
import re

from gpufleet.model.model_errors import InputError

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)
EXPECTED = "a time such as 2026-01-31T12:00:00Z"
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""A 29th of February is taken in every year; where the year has none it counts as the 1st of March."""

# The engine counts microseconds.
_US_PER_S = 10**6


@functools.lru_cache(maxsize=4096)
def microseconds(text: str | None) -> int:
    """Microseconds since 1970; None, which the server writes for an unset time, is 0."""
    if text is None:
        return 0
    found = _TIME.fullmatch(text)
    if found is None:
        raise InputError("not a time", value=text, expected=EXPECTED)
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    in_range = 1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1]
    # RFC 3339 has a second 60: a leap second.
    if not in_range or hour > 23 or minute > 59 or second > 60:
        raise InputError("not a time", value=text, expected=EXPECTED)
    fraction, sign, offset_hours, offset_minutes = found.groups()[6:]
    offset_s = 0 if sign is None else int(f"{sign}1") * (int(offset_hours) * 60 + int(offset_minutes)) * 60
    seconds = _days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset_s
    return max(0, seconds * _US_PER_S + int((fraction or "").ljust(6, "0")[:6]))


def _days_since_1970(year: int, month: int, day: int) -> int:
    """Days in the Gregorian calendar; March counts as the first month, so leap days come last."""
    year -= month <= 2
    # The calendar repeats after 400 years of 146,097 days; 719,468 days lie between the 1st of March of
    # the year 0 and 1970. Months from March on have 31, 30, 31, 30, 31 days over and over: 153 in five.
    era_year = year % 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = era_year * 365 + era_year // 4 - era_year // 100 + day_of_year
    return (year // 400) * 146097 + day_of_era - 719468


def micro_time(moment: dt.datetime) -> str:
    """A moment as Kubernetes' MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def whole_time(moment: dt.datetime) -> str:
    """A moment as Kubernetes' Time, which has whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
