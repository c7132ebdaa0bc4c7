"""Figures of a benchmark: a table for people, a JSON list for machines.

Every benchmark measures, makes ``Figure`` values and hands them to ``publish``.
"""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

FOLDER = Path("build/bench")


class Figure(msgspec.Struct, frozen=True):
    """One measured value; ``target`` None where it is reported but not judged."""

    name: str
    value: float
    unit: str
    target: float | None
    better: Literal["lower", "higher"]
    met: bool | None


def figure(
    name: str, value: float, unit: str, better: Literal["lower", "higher"], target: float | None = None
) -> Figure:
    """A figure judged against its target."""
    met = None
    if target is not None:
        met = value <= target if better == "lower" else value >= target
    return Figure(name, round(value, 6), unit, target, better, met)


def publish(name: str, figures: Sequence[Figure], notes: Sequence[str] = ()) -> None:
    """Print the table and write build/bench/NAME.json."""
    table = Table(title=f"bench-{name} on {machine()}", title_justify="left")
    for column in ("figure", "value", "unit", "target", "met"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for one in figures:
        sign = "<=" if one.better == "lower" else ">="
        target = "-" if one.target is None else f"{sign} {one.target:g}"
        met = {None: "-", True: "yes", False: "NO"}[one.met]
        table.add_row(one.name, f"{one.value:.4g}", one.unit, target, met)
    console = Console(highlight=False, width=120)
    console.print(table)
    for note in notes:
        console.print(note, soft_wrap=True)
    write(name, figures)


def write(name: str, figures: Sequence[Figure]) -> None:
    """Write build/bench/NAME.json; a benchmark of several parts does so after each, in case it is ended."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(list(figures)), indent=1)
    (FOLDER / f"{name}.json").write_bytes(text + b"\n")


def machine() -> str:
    """The machine in a few words, with how busy it is with other work."""
    load = os.getloadavg()[0]
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}"
    )
