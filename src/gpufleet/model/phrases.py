"""Numbers with their nouns, lengths of time, and lists of names, as parts of a sentence."""

import re
from collections.abc import Iterable

from gpufleet.model.model_errors import printable

NAMED_MAX = 3
"""More names than these make a sentence hard to read; the rest is counted."""

_HARMLESS = re.compile(r"[-A-Za-z0-9_./:]{1,512}")
"""Names that can neither forge a line of a message nor steer a terminal, and are not too long for one."""

_PLAIN = re.compile(r"[\x20-\x7e]{1,512}")


def harmless(text: str) -> str:
    """A name as it is, or quoted and cut where it is no name and could forge a line."""
    return text if _HARMLESS.fullmatch(text) else printable(text)


def listed(names: Iterable[str], most: int = NAMED_MAX) -> str:
    """Some names and how many more: "a, b and 3 more". What could forge a line is quoted."""
    every = [name if _PLAIN.fullmatch(name) else printable(name) for name in names]
    if len(every) <= most:
        return " and ".join([", ".join(every[:-1]), every[-1]]) if len(every) > 1 else "".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"


def end(number: int) -> str:
    """The verb for a number of pods."""
    return "ends" if number == 1 else "end"


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 node", "3 nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def each_of(number: int, noun: str) -> str:
    """All of a number of things: "the one node", "each of 3 nodes"."""
    return f"the one {noun}" if number == 1 else f"each of {counted(number, noun)}"


def none_of(number: int, noun: str) -> str:
    """Not any of a number of things: "no node", "none of 3 nodes"."""
    return f"no {noun}" if number == 1 else f"none of {counted(number, noun)}"


def verb(number: int, plural: str) -> str:
    """The verb for a number of things, by its form for many: "have" is "has" of one."""
    return {"are": "is", "have": "has"}.get(plural, f"{plural}s") if number == 1 else plural


def subject(number: int, noun: str, plural: str) -> str:
    """A number with its noun and its verb: "1 node has", "3 nodes have"."""
    return f"{counted(number, noun)} {verb(number, plural)}"


def length(seconds: float) -> str:
    """A length of time in its two largest units."""
    rest, parts = round(seconds), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts[:2]) or "0s"
