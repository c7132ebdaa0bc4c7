"""Lays parked work out for people; ``operator.parking.questions`` has what it is made of."""

from collections.abc import Iterable, Iterator, Sequence

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.model.phrases import counted
from gpufleet.operator.parking.questions import WOKEN_SUFFIX, ParkedWork, ParkedWorkload
from gpufleet.whatif.answer import Answer, Work

HEADER = ("NAMESPACE", "WORK", "PHASE", "SINCE", "GPUS", "WHAT FOLLOWS")


def show_park(told: Sequence[ParkedWorkload]) -> None:
    """Say what was parked, and how it comes back."""
    for one in told:
        gpus = f"; {counted(one.gpus, 'GPU')} given back" if one.gpus else ""
        echo_line(f"{one.kind} {one.namespace}/{one.name} is parked{gpus}. Its volumes are kept.")
    if told:
        echo_line(f"Back by: {_wake_command(told[0])}")


def show_wake(told: Iterable[ParkedWorkload]) -> None:
    """Say what wakes."""
    for one in told:
        echo_line(f"{one.kind} {one.namespace}/{one.name} wakes, and waits in its queue for its GPUs.")


def show_estimate(sentences: Iterable[str]) -> None:
    """Say when woken work would start."""
    for one in sentences:
        echo_line(one)


def show_parked(found: ParkedWork, output: str, *, everywhere: bool) -> None:
    """Print all of it; with namespaces where all of them were asked for."""
    if output == "json":
        echo_json(found)
        return
    if not found.work:
        echo_line("No work is parked.")
    else:
        rows = [HEADER, *(_row(one) for one in found.work)]
        chosen = rows if everywhere else [row[1:] for row in rows]
        for line in _table(chosen):
            echo_line(line)
    for note in found.notes:
        echo_line(f"Note: {note}")


def estimate_lines(answer: Answer) -> Iterator[str]:
    """When and where submitted work would start, or why it would wait."""
    for one in answer.starts:
        if one.submitted and one.start is not None:
            nodes = ", ".join(sorted(one.start.nodes))
            when = "at once" if one.start.in_s < 1 else f"in about {_span(one.start.in_s)}"
            yield f"{_name(one)} would start {when}, on {nodes}."
    for one in answer.waits:
        if one.submitted:
            yield f"{_name(one)} would wait: {one.why}"
    if answer.evicted:
        yield f"{counted(sum(one.pods for one in answer.evicted), 'pod')} of others would be evicted for it."


def _row(one: ParkedWorkload) -> tuple[str, ...]:
    follows = {
        "Warned": f"parked at {one.park_at} unless it is used",
        "Parked": _wake_command(one),
        "Waking": "runs when its queue gives it GPUs",
    }[one.phase]
    return (one.namespace, f"{one.kind}/{one.name}", one.phase, one.since, str(one.gpus), follows)


def _wake_command(one: ParkedWorkload) -> str:
    return f"gpufleet wake {one.kind.lower()}/{one.name} -n {one.namespace}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _name(work: Work) -> str:
    return f"{work.namespace}/{work.name.removesuffix(WOKEN_SUFFIX)}"


def _span(length_s: float) -> str:
    minutes = round(length_s / 60)
    if minutes < 1:
        return f"{round(length_s)} s"
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
