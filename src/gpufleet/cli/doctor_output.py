"""How a diagnosis looks: the ten points, then what is wrong with the cause before what follows from it."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from gpufleet.cli.output import echo_json, echo_painted, terminal_of
from gpufleet.cli.terminal import WIDTH_FALLBACK, WIDTH_LEAST, WIDTH_MOST, with_color
from gpufleet.doctor.check import Grade
from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import Diagnosis, FoundProblem, PointVerdict, Status
from gpufleet.doctor.report import report_of
from gpufleet.model.visible import visible_line

# The words say it too: colours are for the quick eye alone.
HUES = {Status.PASSED: "green", Status.FAILED: "red", Status.NOT_JUDGED: "yellow"}
# Room for the words ahead of a sentence.
MARGIN = 8
# More lines hide the way out below them; JSON has all.
EVIDENCE_MOST = 5


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Tells a person at a terminal how far it is, and leaves nothing behind."""
    # A log of CI would keep each of these lines.
    shows = sys.stderr.isatty()

    def tell(what: str) -> None:
        if shows:
            click.echo(f"\r\x1b[Kdoctor: reading {visible_line(what)}", terminal_of(sys.stderr), nl=False)

    try:
        yield tell
    finally:
        if shows:
            click.echo("\r\x1b[K", terminal_of(sys.stderr), nl=False)


def show(diagnosis: Diagnosis, output: str, color: str, *, verbose: bool) -> None:
    """Print the diagnosis."""
    if output == "json":
        echo_json(report_of(diagnosis))
        return
    terminal = shutil.get_terminal_size((WIDTH_FALLBACK, 24)).columns
    width = min(WIDTH_MOST, max(WIDTH_LEAST, terminal))
    colored = with_color(color)
    for line in lines(diagnosis, width, verbose=verbose):
        echo_painted(_painted(visible_line(line), colored), colored=colored)


def lines(diagnosis: Diagnosis, width: int, *, verbose: bool) -> Iterator[str]:
    """The diagnosis for people."""
    facts = diagnosis.facts
    nodes, workloads = _counted(len(facts.nodes), "node"), _counted(len(facts.gpu_workloads), "GPU workload")
    yield f"{nodes}, {len(facts.gpu_nodes)} with GPUs; {workloads}; Kubernetes {facts.version}"
    yield ""
    for point in diagnosis.points:
        yield from _point(point, width, verbose=verbose)
    for number, cause in enumerate(diagnosis.causes, start=1):
        yield ""
        yield from _cause(f"{number}. ", cause, width)
    yield ""
    yield _summary(diagnosis, verbose=verbose)


def _point(one: PointVerdict, width: int, *, verbose: bool) -> Iterator[str]:
    yield f"{one.point.number:2}  {one.status.value:<11}{one.point.title}"
    if verbose:
        for says in one.good:
            yield from _wrapped(f"{'':15}+ ", says, width)
    if verbose or one.status is Status.NOT_JUDGED:
        for says in one.unjudged:
            yield from _wrapped(f"{'':15}? ", says, width)


def _cause(head: str, one: FoundProblem, width: int) -> Iterator[str]:
    risk = " (a risk)" if one.check.grade is Grade.RISK else ""
    yield from _wrapped(head, f"{one.failure.says}{risk}  [{one.check.id}]", width)
    shown = one.failure.evidence[:EVIDENCE_MOST]
    for text in shown:
        yield from _wrapped("   seen: ", text, width)
    if more := len(one.failure.evidence) - len(shown):
        yield f"   seen: and {more} more"
    yield from _wrapped("   why:  ", one.check.why, width)
    for mend in one.failure.mends:
        yield from _wrapped("   mend: ", mend.does, width)
        if mend.command:
            # A command is pasted: it stays on its line.
            yield f"           {mend.command}"
        for line in mend.manifest.splitlines():
            yield f"           {line}"
    for below in one.follows:
        yield from _wrapped("   follows: ", f"{below.failure.says}  [{below.check.id}]", width)


def _summary(diagnosis: Diagnosis, *, verbose: bool) -> str:
    count = len(diagnosis.causes)
    follow = sum(len(one.follows) for one in diagnosis.causes)
    parts = [_counted(count, "cause") if count else "nothing is wrong"]
    if follow:
        verb, causes = "follows" if follow == 1 else "follow", "it" if count == 1 else "them"
        parts.append(f"{follow} more that {verb} from {causes}")
    open_points = [one for one in diagnosis.points if one.status is Status.NOT_JUDGED]
    hidden = sum(len(one.unjudged) for one in diagnosis.points if one not in open_points)
    unjudged = [f"{len(open_points)} of {_counted(len(diagnosis.points), 'point')}"] if open_points else []
    if hidden and not verbose:
        unjudged.append(f"{_counted(hidden, 'part')} of others (-v tells which)")
    told = f"; not judged: {' and '.join(unjudged)}" if unjudged else ""
    return ", ".join(parts) + told


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )


def _painted(line: str, colored: bool) -> str:
    if colored:
        for status, hue in HUES.items():
            if line[4:].startswith(f"{status.value} "):
                return line[:4] + click.style(status.value, fg=hue) + line[4 + len(status.value) :]
        if line[:1].isdigit():
            return click.style(line, bold=True)
    return line


def checks_table() -> str:
    """Every check on a line."""
    return "".join(
        f"{one.point.number:2}  {one.id:<28}{one.grade.value:<8}{one.title}\n" for one in all_checks()
    )
