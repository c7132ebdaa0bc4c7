"""One reading of ``gpufleet top`` on standard output: a table for people and pipes, JSON for programs.

Notes go to standard error, so that the table stays one.
"""

import sys

import click
import msgspec

from gpufleet.cli.output import echo_json, echo_line, echo_painted
from gpufleet.kube.codec.times import whole_time
from gpufleet.overview.rows.lines import GangLine, IdleLine, NodeLine, PodLine, QueueLine
from gpufleet.top.once import FleetLines
from gpufleet.top.request import TopRequest
from gpufleet.top.screen.columns import Tone
from gpufleet.top.screen.table import in_full
from gpufleet.top.screen.views import VIEWS

SCHEMA = "gpufleet.io/top/v1"
"""A change that breaks readers of the JSON gets another version."""

COLORS = {Tone.BAD: "red", Tone.WARN: "yellow"}


class Document(msgspec.Struct, frozen=True):
    """The reading as JSON. In ``lines`` null is unknown."""

    schema: str
    view: str
    at: str
    summary: str
    lines: (
        tuple[NodeLine, ...]
        | tuple[QueueLine, ...]
        | tuple[GangLine, ...]
        | tuple[PodLine, ...]
        | tuple[IdleLine, ...]
    )
    notes: tuple[str, ...]


def show(found: FleetLines, request: TopRequest, output: str, *, headings: bool, colored: bool) -> None:
    """Print the reading."""
    if output == "json":
        at = whole_time(found.now)
        echo_json(Document(SCHEMA, found.view, at, found.summary, tuple(found.lines), found.notes))
        return
    view = VIEWS[found.view]
    heading, rows = in_full(view, found.lines, found.now, wide=request.wide)
    if headings and found.lines:
        echo_painted(heading, colored=False)
    for line, row in zip(found.lines, rows, strict=True):
        color = COLORS.get(view.tone(line))
        echo_painted(click.style(row, fg=color) if colored and color else row, colored=colored)
    if not found.lines:
        echo_line(f"no line has {request.filter}" if request.filter else view.empty, err=True)
    for note in found.notes:
        echo_line(f"note: {note}", err=True)
    sys.stdout.flush()
