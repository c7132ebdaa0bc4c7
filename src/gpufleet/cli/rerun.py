"""``gpufleet rerun``: run a saved event log again and check that every decision is the same."""

import gzip
import itertools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

GZIP_MAGIC = b"\x1f\x8b"
SHOWN_CHARACTERS = 2000


@click.command(name="rerun")
@click.argument("log", type=click.Path(path_type=Path))
def command(log: Path) -> int:
    """Run the event log LOG again; every line must come out with the same bytes.

    Logs are written by `gpufleet replay --log FILE`. Ends with 1 if a step differs, which is a bug or
    means that the log is of another version.
    """
    from gpufleet import __version__
    from gpufleet.engine.event_log import read_header, rerun

    steps = 0
    with log_lines(log) as file:
        first = file.readline()
        for number, saved, now in rerun(itertools.chain([first] if first else [], file)):
            steps += 1
            if saved != now:
                click.echo(f"gpufleet: {log}, line {number}: decided otherwise than saved", err=True)
                click.echo(f"  saved: {shown(saved)}", err=True)
                click.echo(f"  now:   {shown(now)}", err=True)
                version = read_header(first).version
                if version != __version__:
                    click.echo(f"  saved by gpufleet {version}, this is {__version__}", err=True)
                return 1
    click.echo(f"{steps} steps, every decision the same")
    return 0


@contextmanager
def log_lines(log: Path) -> Iterator[IO[bytes]]:
    """The lines of a log, unpacked where it is packed; InputError where it cannot be read."""
    from gpufleet.model.errors import InputError

    try:
        with log.open("rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            yield gzip.GzipFile(fileobj=file, mode="rb") if packed else file  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            "the log cannot be read",
            field=str(log),
            value=str(error),
            expected="a file of `gpufleet replay --log`",
        ) from error


def shown(line: bytes) -> str:
    """The beginning of a line, with nothing in it that a terminal would act on."""
    text = line.decode(errors="replace").rstrip()[:SHOWN_CHARACTERS]
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
