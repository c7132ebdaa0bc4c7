"""The file of counters that dcgm-exporter reads: on each line a field of DCGM, a type, and a help text.

A file that served dcgm-exporter is taken as it is. What DCGM has and we cannot tell is not served and is
listed with the reason; a name that looks misspelt, or is none of DCGM's at all, is refused with the one that
was probably meant, because a counter that is silently missing is found out on the night when it is needed.
"""

import csv
import difflib
import re
from collections.abc import Mapping

import msgspec

from gpufleet.agent.exporter.counters import (
    DEFAULT,
    DEFAULT_LABELS,
    SERVED,
    SERVED_LABELS,
    Counter,
    InfoLabel,
)
from gpufleet.agent.exporter.dcgm_names import UNSERVED, UNTOLD
from gpufleet.agent.exporter.exporter_counters import EXPORTER_COUNTERS, ExporterCounter
from gpufleet.agent.exporter.exporter_errors import CountersError
from gpufleet.agent.exporter.text import Family, Kind
from gpufleet.model.model_errors import printable

# Bounds what is read: DCGM knows some hundred counters, a line each.
BYTES_MAX = 1 << 20
FIELD_NAME = re.compile(r"DCGM_FI_[A-Z0-9_]+")
PREFIX = re.compile(r"DCGM_(FI|EXP)_((DEV|PROF)_)?|dcgm_")
LIKENESS = 0.85
"""How alike two names are, 0 to 1, of which one is taken for the other misspelt."""

ALL_SERVED: Mapping[str, Counter | ExporterCounter] = {**SERVED, **EXPORTER_COUNTERS}
KINDS: dict[str, Kind] = {"gauge": "gauge", "counter": "counter"}
LABEL = "label"


class ChosenCounter(msgspec.Struct, frozen=True):
    """A counter under the name, type and help that were asked for."""

    family: Family
    counter: Counter | ExporterCounter


class ChosenCounters(msgspec.Struct, frozen=True):
    """What is served under DCGM's names, in this order. ``notices`` says what was asked for and is not."""

    counters: tuple[ChosenCounter, ...]
    labels: tuple[InfoLabel, ...] = ()
    notices: tuple[str, ...] = ()


def default_counters() -> ChosenCounters:
    """What dcgm-exporter serves by default."""
    chosen = tuple(ChosenCounter(Family(one.name, one.kind, one.help), one) for one in DEFAULT)
    return ChosenCounters(chosen, DEFAULT_LABELS)


def read_counters(text: bytes, where: str = "") -> ChosenCounters:
    """The counters of a file. Raises CountersError naming the line."""
    counters: list[ChosenCounter] = []
    labels: list[InfoLabel] = []
    notices: list[str] = []
    seen: dict[str, int] = {}
    for line, (name, kind, meaning) in _rows(text, where):
        place = _place(where, line)
        if name in seen:
            raise CountersError(
                "asked for twice", value=name, expected=f"line {seen[name]} alone", where=place
            )
        seen[name] = line
        if name in ALL_SERVED:
            counters.append(_chosen(name, kind, meaning, place))
        elif name in SERVED_LABELS:
            _check(kind == LABEL, kind, "label", place)
            labels.append(SERVED_LABELS[name])
        else:
            notices.append(_not_served(name, line, place))
    if not seen:
        raise CountersError("no counters", expected="lines of name, type and help", where=where)
    return ChosenCounters(tuple(counters), tuple(labels), tuple(notices))


def _rows(text: bytes, where: str) -> list[tuple[int, tuple[str, str, str]]]:
    """The three fields of each line that has some, with its number."""
    if len(text) > BYTES_MAX:
        raise CountersError(
            "too long", value=f"{len(text)} bytes", expected=f"at most {BYTES_MAX}", where=where
        )
    try:
        # Some editors put a byte order mark in front, which is no part of the first name.
        lines = text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        expected = "a table of name, type and help in UTF-8"
        value = f"byte {error.start}"
        raise CountersError("not text in UTF-8", value=value, expected=expected, where=where) from error
    return [
        (number, _fields(line, _place(where, number)))
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]


def _fields(line: str, place: str) -> tuple[str, str, str]:
    expected = "name, type, help; a help with commas stands in quotation marks"
    try:
        found = [field.strip() for field in next(csv.reader([line], skipinitialspace=True, strict=True))]
    except csv.Error as error:
        raise CountersError(
            f"not a line of CSV ({error})", value=line, expected=expected, where=place
        ) from None
    if len(found) != 3:
        problem = f"{len(found)} fields" if len(found) != 1 else "one field"
        raise CountersError(problem, value=line, expected=expected, where=place)
    return found[0], found[1], found[2]


def _chosen(name: str, kind: str, meaning: str, place: str) -> ChosenCounter:
    _check(kind in KINDS, kind, "gauge or counter", place)
    counter = ALL_SERVED[name]
    return ChosenCounter(Family(name, KINDS[kind], meaning or counter.help), counter)


def _check(right: bool, kind: str, expected: str, place: str) -> None:
    if not right:
        raise CountersError("not its type", field="type", value=kind, expected=expected, where=place)


def _not_served(name: str, line: int, place: str) -> str:
    """Words for a field that is not served. Raises CountersError for what is no field, or looks misspelt."""
    if name in UNSERVED:
        return f"line {line}: {name} is not served: {UNSERVED[name]}"
    if name in UNTOLD:
        return f"line {line}: {name} is not served: the vendor's library does not tell it"
    meant = _meant(name)
    if meant is None and FIELD_NAME.fullmatch(name):
        return f"line {line}: {name} is not served: it is not known here"
    expected = f"a field of DCGM; did you mean {meant}?" if meant else "a field of DCGM"
    raise CountersError("no such counter", field="name", value=name, expected=expected, where=place)


def _meant(name: str) -> str | None:
    """The counter of which this is probably a misspelling."""
    # What all of them begin with would make any two of them look alike.
    known = {_own_part(one): one for one in (*UNTOLD, *UNSERVED, *ALL_SERVED, *SERVED_LABELS)}
    found = difflib.get_close_matches(_own_part(name), known, n=1, cutoff=LIKENESS)
    return known[found[0]] if found else None


def _own_part(name: str) -> str:
    return PREFIX.sub("", name)


def _place(where: str, line: int) -> str:
    return f"{printable(where)[1:-1]}, line {line}" if where else f"line {line}"
