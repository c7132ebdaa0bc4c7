"""``gpufleet rerun``: decide again what a saved event log or snapshot says, and check that it is the same."""

import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.parameters import InputFile

if TYPE_CHECKING:
    from gpufleet.files.lines import BoundedLines

EXPECTED = "a file of `gpufleet replay --log` or `gpufleet snapshot`"
# A step with thousands of pods is one line; its beginning tells which step it is.
SHOWN_CHARACTERS = 2000


@click.command(name="rerun")
@click.argument("log", type=InputFile("a file of `gpufleet replay --log` or `gpufleet snapshot`"))
def command(log: Path) -> int:
    """Run the event log or snapshot LOG again; every line must come out with the same bytes.

    Logs are written by `gpufleet replay --log FILE`, snapshots by `gpufleet snapshot`. Ends with 1 if a
    step differs, which is a bug or means that the file is of another version.
    """
    from gpufleet import __version__
    from gpufleet.engine.event_log import ends_step

    steps = 0
    with log_lines(log) as file:
        first = file.readline()
        for place, saved, now in rerun_of(first, file, str(log)):
            # A slice of a step has a line of its own.
            steps += ends_step(saved)
            if saved != now:
                click.echo(f"gpufleet: {log}, {place}: decided otherwise than saved", err=True)
                click.echo(f"  saved: {shown(saved)}", err=True)
                click.echo(f"  now:   {shown(now)}", err=True)
                version = json.loads(first)["version"]
                if version != __version__:
                    click.echo(f"  saved by gpufleet {version}, this is {__version__}", err=True)
                return 1
    click.echo(f"{steps} step{'' if steps == 1 else 's'}, every decision the same")
    return 0


def rerun_of(first: bytes, rest: Iterable[bytes], where: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Every step: where it stands, what was saved, what is decided now."""
    from gpufleet.cluster.snapshots import decisions, document
    from gpufleet.engine import event_log

    lines = itertools.chain([first] if first else [], rest)
    if first.startswith(document.MAGIC):
        for number, saved, now in decisions.rerun(document.read(lines, where)):
            yield f"step {number}", saved, now
    else:
        for number, saved, now in event_log.rerun(lines):
            yield f"line {number}", saved, now


@contextmanager
def log_lines(log: Path) -> Iterator["BoundedLines"]:
    """The lines of a log, unpacked where it is packed; InputError where it cannot be read."""
    from gpufleet.engine.engine_errors import LogError
    from gpufleet.files.lines import BoundedLines
    from gpufleet.files.unpacking import GzipError
    from gpufleet.model.model_errors import InputError

    try:
        with BoundedLines(log, expected=EXPECTED) as lines:
            yield lines
    except (OSError, GzipError) as error:
        raise InputError(
            "the log cannot be read",
            field=str(log),
            value=error.problem if isinstance(error, GzipError) else str(error),
            expected=EXPECTED,
        ) from error
    except LogError as error:
        place = f"{log}, {error.where}" if error.where else str(log)
        raise InputError(
            error.problem,
            where=place,
            field=error.field,
            value=error.value,
            expected=error.expected or EXPECTED,
        ) from error


def shown(line: bytes) -> str:
    """The beginning of a line, with nothing in it that a terminal would act on."""
    from gpufleet.model.visible import visible_line

    text = line.decode(errors="replace").rstrip()[:SHOWN_CHARACTERS]
    return visible_line(text)
