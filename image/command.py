"""Runs the programs of the build; their last words are told where they fail."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from image.errors import ImageError

LINES_SHOWN = 12


def output_of(
    command: Sequence[str | Path],
    what: str,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What a program prints. Raises ImageError with ``what`` was tried and the end of what it said."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ImageError(f"{what}: there is no program {command[0]} on this machine") from error
    if done.returncode != 0:
        last = "\n".join(f"  {line}" for line in done.stderr.strip().splitlines()[-LINES_SHOWN:])
        raise ImageError(f"{what} failed with {done.returncode}:\n{last}")
    return done.stdout
