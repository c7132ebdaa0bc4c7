"""``gpufleet rerun``: run a saved event log again and check that every decision is the same."""

import gzip
from pathlib import Path

import click


@click.command(name="rerun")
@click.argument("log", type=click.Path(path_type=Path))
def command(log: Path) -> int:
    """Run the event log LOG again; every line must come out with the same bytes.

    Logs are written by `gpufleet replay --log FILE`. Ends with 1 if a step differs, which is a bug or
    means that the log is of another version.
    """
    from gpufleet.engine.event_log import rerun
    from gpufleet.model.errors import InputError

    steps = 0
    try:
        with gzip.open(log, "rb") if log.suffix == ".gz" else log.open("rb") as file:
            for number, saved, now in rerun(file):
                steps += 1
                if saved != now:
                    click.echo(f"{log}, line {number} differs", err=True)
                    click.echo(f"  saved: {saved.decode(errors='replace')[:2000].rstrip()}", err=True)
                    click.echo(f"  now:   {now.decode(errors='replace')[:2000].rstrip()}", err=True)
                    return 1
    except (OSError, EOFError) as error:
        raise InputError(
            "the log cannot be read",
            field=str(log),
            value=str(error),
            expected="a file of `gpufleet replay --log`",
        ) from error
    click.echo(f"{steps} steps, every decision the same")
    return 0
