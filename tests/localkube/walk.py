"""Pages that are walked: a shell as a newcomer has it, and every command of a page typed into it.

A line that begins with "$ " is typed; the lines below it have to be in what it prints, sooner or later.
Dots in such a line stand for anything: names of GPUs and of pods are others each time. A command that the
page shows to fail, with our own words for it ("gpufleet: ..."), has to end with the code for bad input.
Commands that ``tests.conventions.untyped`` names, each with its reason, are left out.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.conventions.pages import steps
from tests.conventions.project import ROOT, name
from tests.conventions.untyped import UNTYPED
from tests.localkube.cluster import program

WAIT_S = 300.0
"""How long a page may take to be right: a slow machine is no failure."""

FIRST_LOOK_AGAIN_S = 0.5
LAST_LOOK_AGAIN_S = 3.0
"""Each look is a command, which costs up to a second of a processor."""

PART_OF_WAIT = 0.3
"""What a page waits for longer is looked at more rarely."""

COMMAND_S = 600.0
"""How long one command may take: a first `gpufleet up` compiles kernels, beside whatever else is at work."""
SHELL = "/bin/bash"
BAD_INPUT = 2
CHANGES = re.compile(r"gpufleet (up|down)\b|kubectl (apply|cordon|create|delete|label|scale|taint)\b")
"""Commands that change something: they are typed once, and what they print has to be right at once."""


def pattern(line: str) -> str:
    """What a line of a page has to look like."""
    return ".*".join(map(re.escape, line.split("...")))


@contextmanager
def newcomers_shell(folder: Path) -> Iterator[Mapping[str, str]]:
    """A newcomer's shell: our command and kubectl on its path, no cluster yet, and none at the end."""
    commands = folder / "bin"
    commands.mkdir()
    # What commands write stays out of the real checkout.
    checkout = folder / "checkout"
    checkout.mkdir()
    for entry in ROOT.iterdir():
        (checkout / entry.name).symlink_to(entry)
    (commands / "kubectl").symlink_to(program("kubectl"))
    (commands / "gpufleet").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m gpufleet "$@"\n', encoding="utf-8"
    )
    (commands / "gpufleet").chmod(0o755)
    path = f"{commands}:{os.environ['PATH']}"
    # Pages show what fits into a hundred columns, whatever the terminal of who runs the tests.
    environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(folder), "COLUMNS": "100"}
    try:
        yield environment
    finally:
        typed("gpufleet down", environment, folder / "memory")


def typed(command: str, environment: Mapping[str, str], memory: Path) -> tuple[int, str]:
    """Type a command into a shell that remembers the variables of those before."""
    memory.touch()
    keep = f"declare -p KUBECONFIG node 2>/dev/null >{memory}"
    script = f"set -a; . {memory}; {command}\ncode=$?; {keep}; exit $code"
    done = subprocess.run(
        [SHELL, "-c", script],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env=dict(environment),
        cwd=memory.parent / "checkout",
        timeout=COMMAND_S,
    )
    return done.returncode, done.stdout + done.stderr


def walk(page: Path, environment: Mapping[str, str], memory: Path) -> int:
    """Type every command of a page, each until it prints what the page says; how many there were."""
    commands = [step for step in steps(page) if step[0] not in UNTYPED.get(name(page), {})]
    for command, wanted in commands:
        began_s = time.monotonic()
        due = BAD_INPUT if any(line.startswith("gpufleet: ") for line in wanted) else 0
        while True:
            code, said = typed(command, environment, memory)
            missing = [line for line in wanted if not re.search(pattern(line), said)]
            if code == due and not missing:
                break
            assert not CHANGES.search(command), f"$ {command}\n{said}\nnot there: {missing}"
            waited_s = time.monotonic() - began_s
            assert waited_s < WAIT_S, f"$ {command}\n{said}\nnever: {missing}"
            time.sleep(min(LAST_LOOK_AGAIN_S, max(FIRST_LOOK_AGAIN_S, waited_s * PART_OF_WAIT)))
    return len(commands)
