"""Lengths of time as Go writes them ("1h0m0s", "1.5h", "500ms"), in our words."""

import re
from fractions import Fraction

from gpufleet.kube.codec.durations import MAXIMUM_US, written_duration
from gpufleet.migration.sources import Source

_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(rf"\+?(?:{_PART})+|\+?0", re.ASCII)
_EACH = re.compile(_PART)
_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def as_ours(source: Source, text: str, field: str) -> str:
    """A duration of Go in our notation, rounded up to milliseconds. Raises InputError for what Go would not
    read.
    """
    # A number of any length would cost time before it is found to be too long.
    if len(text) > 64 or not _WHOLE.fullmatch(text):
        raise source.error("not a length of time", field, text, "one such as 10m or 1h30m")
    length_ns = sum(Fraction(number) * _NS[unit] for number, unit in _EACH.findall(text))
    length_ms = -(-length_ns // 10**6)
    if length_ms * 1000 > MAXIMUM_US:
        raise source.error("too long", field, text, "at most a hundred years")
    return written_duration(int(length_ms) * 1000)
