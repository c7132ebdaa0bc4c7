"""Lengths of time as people write them: "90s", "1h30m", "7d"; whole microseconds inside."""

import re

from gpufleet.model.model_errors import InputError

PATTERN = r"([0-9]{1,9}(ms|s|m|h|d))+"
"""What the definition of FleetQueue lets in."""

LENGTH_MAX = 32
"""The pattern repeats, so the length of a text is bounded before it is matched."""

EXPECTED = "a length of time such as 90s, 1h30m or 7d"
MAXIMUM_US = 100 * 365 * 86_400 * 10**6
"""A hundred years: nothing that is written shall overflow a sum of times."""

_WHOLE = re.compile(PATTERN)
_FRACTIONS = re.compile(r"([0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h|d))+")
"""Lengths with fractions ("1.5h"), as scenario files take them; six decimals, so that integers hold them."""

_PART = re.compile(r"([0-9]+)(?:\.([0-9]+))?(ms|[smhd])")
# Fractions of a unit are read to six digits, so that nothing is rounded twice.
_MILLIONTHS = 10**6
# Microseconds in each unit, the unit of all times inside the program.
_US = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86_400 * 10**6}


def read_duration(text: str, field: str, *, fractions: bool = False) -> int:
    """Microseconds. Raises InputError for what is no length of time, or longer than a hundred years.

    ``fractions`` lets in "1.5s", which the definition of FleetQueue does not.
    """
    if len(text) > LENGTH_MAX or not (_FRACTIONS if fractions else _WHOLE).fullmatch(text):
        raise InputError("not a length of time", field=field, value=text, expected=EXPECTED)
    found = 0
    for whole, rest, unit in _PART.findall(text):
        millionths = int(whole) * _MILLIONTHS + int(rest.ljust(6, "0") or 0)
        found += millionths * _US[unit] // _MILLIONTHS
    if found > MAXIMUM_US:
        raise InputError("too long", field=field, value=text, expected="at most a hundred years")
    return found


def written_duration(length_us: int) -> str:
    """The length in the largest units that need no fraction, at the smallest milliseconds: "1h30m"."""
    parts, rest = [], length_us
    for unit in ("d", "h", "m", "s", "ms"):
        number, rest = divmod(rest, _US[unit])
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
