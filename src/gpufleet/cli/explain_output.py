"""How an answer looks: as text for people in their terminal's width, or as JSON or YAML for programs.

Nothing is said by colour alone, and none is used outside of a terminal. Every line is made harmless once more
on its way out: names and messages come from everything that may write to the cluster.
"""

import shutil
import textwrap
from collections.abc import Iterator

import click

from gpufleet.cli.output import echo_json, echo_painted
from gpufleet.cli.terminal import WIDTH_FALLBACK, WIDTH_LEAST, WIDTH_MOST, with_color
from gpufleet.explain.answer import Answer, DeviceRow, GangRow, MemberRow, ReasonRow, State
from gpufleet.kube.yaml_documents import yaml_text
from gpufleet.model.gang import short_gang_name
from gpufleet.model.phrases import counted, verb
from gpufleet.model.visible import visible_line

# Room for the longest heading with its colon.
MARGIN = 11
# A screen shows them; JSON has all.
MEMBERS_MAX = 12
BOLD = {"bold": True}
COLOR_BY_STATE = {State.RUNS: "green", State.PLACED: "green", State.ENDED: "blue"}
HEADINGS = ("Why", "Way out", "Node", "Nodes", "Gang", "Pods", "Note")


def show(answer: Answer, output: str, color: str) -> None:
    """Print the answer."""
    if output == "json":
        echo_json(answer)
    elif output == "yaml":
        click.echo(yaml_text(answer), nl=False)
    else:
        width = shutil.get_terminal_size((WIDTH_FALLBACK, 24)).columns
        colored = with_color(color)
        for line in lines(answer, min(WIDTH_MOST, max(WIDTH_LEAST, width))):
            shown = visible_line(line)
            echo_painted(painted(shown, answer) if colored else shown, colored=colored)


def painted(line: str, answer: Answer) -> str:
    """A line with its heading in colour."""
    if line == visible_line(line) and line.startswith(str(answer.subject)):
        subject = str(answer.subject)
        hue = COLOR_BY_STATE.get(answer.state, "yellow")
        return click.style(subject, fg=hue, bold=True) + line[len(subject) :]
    for heading in HEADINGS:
        if line.startswith(f"{heading}:"):
            return click.style(f"{heading}:", bold=True) + line[len(heading) + 1 :]
    return line


def lines(answer: Answer, width: int) -> Iterator[str]:
    """The answer, line by line."""
    yield from textwrap.wrap(answer.summary, width, subsequent_indent="  ", break_on_hyphens=False)
    if answer.about:
        yield from textwrap.wrap(answer.about, width, subsequent_indent="  ", break_on_hyphens=False)
    if answer.why or answer.placement is not None:
        yield ""
    yield from block("Why", answer.why, width)
    for number, way in enumerate(answer.way_out):
        yield from block("Way out" if number == 0 else "  or", way, width)
    if answer.placement is not None:
        yield from block("Node", answer.placement.node, width)
        for device in answer.placement.devices:
            yield from block("", _device(device), width)
    yield from _reasons(answer, width)
    if answer.gang is not None:
        yield from _gang(answer.gang, width)
    in_gang = answer.gang is not None and len(answer.gang.members) >= len(answer.pods)
    if answer.pods and not in_gang:
        yield ""
        yield from block("Pods", f"{len(answer.pods)}", width)
        yield from _members(answer.pods, width)
    for note in answer.notes:
        yield ""
        yield from block("Note", note, width)


def block(heading: str, text: str, width: int) -> Iterator[str]:
    """A heading with its text beside it, wrapped."""
    if text:
        first = (f"{heading}:" if heading else "").ljust(MARGIN)
        yield from textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=" " * MARGIN, break_on_hyphens=False
        )


def _reasons(answer: Answer, width: int) -> Iterator[str]:
    if not answer.reasons:
        return
    yield ""
    yield from block("Nodes", f"{answer.nodes}, each counted once under its first reason", width)
    for row in answer.reasons:
        text = f"{row.words} ({row.detail})" if row.detail else row.words
        yield from _counted(row, text, width)
    fitting = answer.nodes - sum(row.first for row in answer.reasons)
    if fitting:
        yield f"{fitting:>{MARGIN - 2}}  that would take it"


def _counted(row: ReasonRow, text: str, width: int) -> Iterator[str]:
    if row.first:
        others = row.all - row.first
        first = f"{row.first:>{MARGIN - 2}}  "
        text += f"; and {others} that {verb(others, 'fail')} for something else first" if others else ""
    else:
        first = f"{'':>{MARGIN - 2}}  "
        text = f"also {row.all} {text}"
    yield from textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=" " * MARGIN, break_on_hyphens=False
    )


def _device(device: DeviceRow) -> str:
    part = f", {device.gpu_milli / 1000:g} of it" if device.kind != "whole" and device.gpu_milli else ""
    memory = "" if device.memory_mib is None else f", {device.memory_mib} MiB"
    return f"{device.id} {device.model}{part}{memory} in container {device.container}"


def _gang(row: GangRow, width: int) -> Iterator[str]:
    yield ""
    come = f"{row.arrived} of {counted(row.min_members, 'member')} {verb(row.arrived, 'have')} come"
    placed = f"{row.placed} {verb(row.placed, 'are')} placed"
    head = f"{short_gang_name(row.name)}: {come}, {placed}"
    yield from block("Gang", head, width)
    for role in row.roles:
        yield from block("", f"role {role.role}: {role.arrived} of {role.needed}", width)
    yield from _members(row.members, width)


def _members(rows: tuple[MemberRow, ...], width: int) -> Iterator[str]:
    shown = rows[:MEMBERS_MAX]
    longest = max((len(row.pod) for row in shown), default=0)
    for row in shown:
        node = f" on {row.node}" if row.node else ""
        role = f", role {row.role}" if row.role else ""
        why = f" ({row.why})" if row.why else ""
        yield from block("", f"{row.pod:<{longest}}  {row.state.value}{node}{role}{why}", width)
    if len(rows) > len(shown):
        yield from block("", f"and {len(rows) - len(shown)} more", width)
