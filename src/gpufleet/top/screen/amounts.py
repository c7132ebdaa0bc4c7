"""Values as people read them in a narrow column. What is unknown is ``?``; what does not apply is ``-``."""

import datetime as dt

from gpufleet.kube.codec.times import microseconds
from gpufleet.model.model_errors import InputError

UNKNOWN = "?"
NONE = "-"
GIBIBYTE = 1 << 30
"""Bytes in the unit that is shown."""
# Four digits of watts still fit into a column.
KILOWATT_FROM = 10_000
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def plain_number(amount: float | None) -> str:
    """A number without needless digits: 8, 0.5, 6.25."""
    return UNKNOWN if amount is None else f"{amount:.6g}"


def percent(ratio: float | None) -> str:
    """A ratio from 0 to 1."""
    return UNKNOWN if ratio is None else f"{ratio * 100:.0f}%"


def gibibytes(size_bytes: float | None) -> str:
    """An amount of memory, with a digit behind the point where it is small."""
    if size_bytes is None:
        return UNKNOWN
    amount = size_bytes / GIBIBYTE
    return f"{amount:.0f}Gi" if amount >= 100 else f"{amount:.1f}Gi"


def watts(power_watts: float | None) -> str:
    """A power, in kilowatts from ten of them on."""
    if power_watts is None:
        return UNKNOWN
    return f"{power_watts / 1000:.1f}kW" if power_watts >= KILOWATT_FROM else f"{power_watts:.0f}W"


def celsius(temperature: float | None) -> str:
    """A temperature."""
    return UNKNOWN if temperature is None else f"{temperature:.0f}C"


def duration(length_s: float) -> str:
    """A length of time in its largest unit, and from ten minutes to a day with the next: 45s, 12m, 3h, 2d."""
    whole = max(0, int(length_s))
    for unit_s, letter in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "m")):
        if whole >= 2 * unit_s:
            return f"{whole // unit_s}{letter}"
    return f"{whole}s"


def age_s(created: str, now: dt.datetime) -> float | None:
    """How long ago a time in RFC 3339 is; None for what is none."""
    if not created:
        return None
    try:
        return now.timestamp() - microseconds(created) / 1_000_000
    except InputError:
        return None


def age(created: str, now: dt.datetime) -> str:
    """How long ago a time in RFC 3339 is."""
    found = age_s(created, now)
    return UNKNOWN if found is None else duration(found)


def clock_time(moment: dt.datetime) -> str:
    """A time of the day in the zone of the person, to the second."""
    return moment.astimezone().strftime("%H:%M:%S")
