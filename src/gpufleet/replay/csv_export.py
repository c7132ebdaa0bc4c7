"""Writes results as CSV that is safe to open in a spreadsheet.

A pod may be called ``=HYPERLINK(...)``, and a spreadsheet runs what begins like a formula. Such
text gets an apostrophe in front, which spreadsheets show as text; numbers stay numbers.
``atomic_write`` opens the file.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from typing import TextIO

import msgspec

from gpufleet.model.visible import visible_text
from gpufleet.replay.trace_cells import MICROSECONDS

Cell = str | float | None

# A spreadsheet skips spaces before a formula, and takes the full-width signs too.
_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)

PLACEMENT_COLUMNS = ("pod", "node", "devices", "gpu_milli", "at_s", "reason")


class Placement(msgspec.Struct, frozen=True):
    """The node of a task, or the reason why it got none (``node`` is then None).

    ``gpu_milli`` is what it got of each device. ``at_us`` is when it was decided.
    """

    pod: str
    node: str | None
    devices: tuple[str, ...] = ()
    gpu_milli: int = 0
    at_us: int = 0
    reason: str = ""


def write_placements(file: TextIO, placements: Iterable[Placement]) -> None:
    """Writes one row a placement, in the order given."""
    rows = (
        (
            placement.pod,
            placement.node,
            ";".join(placement.devices),
            placement.gpu_milli,
            seconds_text(placement.at_us),
            placement.reason,
        )
        for placement in placements
    )
    write_csv(file, PLACEMENT_COLUMNS, rows)


def write_csv(file: TextIO, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Writes a table; None is an empty cell."""
    # The line ends of RFC 4180: with "\n" alone, a carriage return in a cell would go unquoted.
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([safe_cell(name) for name in header])
    for row in rows:
        writer.writerow([safe_cell(value) for value in row])


def safe_cell(value: Cell) -> Cell:
    """The value as it may stand in a cell."""
    if isinstance(value, str):
        value = visible_text(value)
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value
    return value


def seconds_text(time_us: int) -> str:
    """Microseconds as exact seconds, with no more decimals than needed."""
    whole, part = divmod(abs(time_us), MICROSECONDS)
    sign = "-" if time_us < 0 else ""
    decimals = f".{part:06}".rstrip("0") if part else ""
    return f"{sign}{whole}{decimals}"
