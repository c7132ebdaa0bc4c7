"""Times and lengths of time: read from texts, written as texts, and taken apart.

Durations are written as Go writes them ("1h30m"), times as RFC 3339.
"""

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpufleet.device_selectors.cel_errors import EvaluationError
from gpufleet.device_selectors.values import INT_MAXIMUM, INT_MINIMUM, Duration, Timestamp

NANOSECONDS = 10**9
"""A second has as many."""
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+|[+-]?0")
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))"
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def duration_of_text(text: str) -> Duration:
    """Read a length of time, for example 1h30m. Raises EvaluationError."""
    if not _WHOLE.fullmatch(text):
        raise EvaluationError(f"invalid duration {text!r}")
    total = 0
    for number, unit in _PART.findall(text):
        whole, _, fraction = number.partition(".")
        scale = _UNITS[unit]
        total += int(whole or 0) * scale
        total += int(fraction) * scale // 10 ** len(fraction) if fraction else 0
    total = -total if text.startswith("-") else total
    if not INT_MINIMUM <= total <= INT_MAXIMUM:
        raise EvaluationError(f"invalid duration {text!r}")
    return Duration(total)


def duration_text(length: Duration) -> str:
    """A length of time in seconds: "90s"."""
    seconds, rest = divmod(abs(int(length)), NANOSECONDS)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if length < 0 else ''}{seconds}{fraction}s"


def timestamp_of_text(text: str) -> Timestamp:
    """A time of RFC 3339. Raises EvaluationError."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise EvaluationError(f"invalid timestamp {text!r}")
    year, month, day, hour, minute, second = (int(one) for one in match.groups()[:6])
    try:
        moment = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError as error:
        raise EvaluationError(f"invalid timestamp {text!r}: {error}") from None
    fraction, sign, hours, minutes = match.groups()[6:]
    offset_s = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1) if sign else 0
    seconds = int((moment - _EPOCH).total_seconds()) - offset_s
    return Timestamp(seconds * NANOSECONDS + int((fraction or "0").ljust(9, "0")))


def timestamp_text(moment: Timestamp) -> str:
    """A time as RFC 3339, UTC."""
    seconds, rest = divmod(int(moment), NANOSECONDS)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{_in_zone(seconds, 'UTC'):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _in_zone(seconds: int, zone: str) -> dt.datetime:
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    # An offset is a zone too, and no database of zones has it by that name.
    match = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", zone)
    if match:
        minutes = int(match.group(2)) * 60 + int(match.group(3))
        return moment + dt.timedelta(minutes=-minutes if match.group(1) == "-" else minutes)
    try:
        return moment.astimezone(zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise EvaluationError(f"unknown time zone {zone!r}") from None


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of a time, such as its hour, and of a length of time where that has it."""

    of_time: Callable[[dt.datetime, int], int]
    duration: Callable[[Duration], int] | None = None

    def timestamp(self, moment: Timestamp) -> int:
        """Of a time, UTC."""
        return self.in_zone(moment, "UTC")

    def in_zone(self, moment: Timestamp, zone: str) -> int:
        """Of a time where the clocks of a zone stand."""
        seconds, rest = divmod(int(moment), NANOSECONDS)
        return self.of_time(_in_zone(seconds, zone), rest)


def _whole(length: Duration, unit: int) -> int:
    return int(abs(length) // unit * (-1 if length < 0 else 1))


parts_of: Mapping[str, TimePart] = {
    "getFullYear": TimePart(lambda time, _: time.year),
    "getMonth": TimePart(lambda time, _: time.month - 1),
    "getDayOfYear": TimePart(lambda time, _: time.timetuple().tm_yday - 1),
    "getDayOfMonth": TimePart(lambda time, _: time.day - 1),
    "getDate": TimePart(lambda time, _: time.day),
    "getDayOfWeek": TimePart(lambda time, _: time.isoweekday() % 7),
    "getHours": TimePart(lambda time, _: time.hour, lambda length: _whole(length, _UNITS["h"])),
    "getMinutes": TimePart(lambda time, _: time.minute, lambda length: _whole(length, _UNITS["m"])),
    "getSeconds": TimePart(lambda time, _: time.second, lambda length: _whole(length, NANOSECONDS)),
    "getMilliseconds": TimePart(lambda _, rest: rest // 10**6, lambda length: _whole(length, 10**6) % 1000),
}
"""By the name of the method."""
