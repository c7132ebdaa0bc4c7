"""Runs a program as a step of set-up: ``python -m gpufleet.progress.command NAME SECONDS WORDS PROGRAM...``.

What the program says is shown when it fails. The exit code is the program's.
"""

import subprocess
import sys
from collections.abc import Sequence

from gpufleet.progress.durations import Step
from gpufleet.progress.reporting import ToPerson

LINES_SHOWN = 40
"""The end of what a program said that failed, where the error stands."""


def run(step: Step, words: str, program: Sequence[str]) -> int:
    """The exit code of the program."""
    with ToPerson("setup: ").during(words, lambda: "", step):
        done = subprocess.run(  # noqa: S603  what the Makefile names
            program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        lines = done.stdout.decode(errors="replace").splitlines()
        sys.stderr.write("".join(f"{line}\n" for line in lines[-LINES_SHOWN:]))
    return done.returncode


if __name__ == "__main__":
    name, seconds, what, *asked = sys.argv[1:]
    sys.exit(run(Step(name, float(seconds)), what, asked))
