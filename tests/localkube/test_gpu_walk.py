"""The five minutes with GPUs: every command of that page, typed as it stands there, does what it says.

A line that begins with "$ " is typed; the lines below it have to be in what it prints, sooner or later.
Dots in such a line stand for anything: names of GPUs are others each time.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.house.project import ROOT
from tests.localkube.cluster import program, real_node_programs

PAGE = ROOT / "docs" / "gpu-walk.md"
WAIT_S = 90.0
SHELL = "/bin/bash"


def steps() -> list[tuple[str, list[str]]]:
    """Each command of the page, and what it has to print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(
        r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def pattern(line: str) -> str:
    """What a line of the page has to look like."""
    return ".*".join(map(re.escape, line.split("...")))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """What a newcomer's shell has: our command and kubectl on its path, and no cluster yet."""
    real_node_programs()
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "kubectl").symlink_to(program("kubectl"))
    (commands / "gpufleet").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m gpufleet "$@"\n', encoding="utf-8"
    )
    (commands / "gpufleet").chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "XDG_STATE_HOME": str(tmp_path)}
    try:
        yield environment
    finally:
        typed("gpufleet down", environment, tmp_path / "memory")


def typed(command: str, environment: Mapping[str, str], memory: Path) -> tuple[int, str]:
    """Type a command into a shell that remembers the variables of those before."""
    memory.touch()
    keep = f"declare -p KUBECONFIG node 2>/dev/null >{memory}"
    script = f"set -a; . {memory}; {command}\ncode=$?; {keep}; exit $code"
    done = subprocess.run(
        [SHELL, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=dict(environment),
        cwd=ROOT,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_every_command_of_the_walk_does_what_the_page_says(shell: Mapping[str, str], tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    walk = steps()
    assert len(walk) > 15
    for command, wanted in walk:
        limit_s = time.monotonic() + WAIT_S
        while True:
            code, said = typed(command, shell, memory)
            if code == 0 and all(re.search(pattern(line), said) for line in wanted):
                break
            once = "apply" in command or command.startswith("gpufleet")
            assert not once or command.startswith("gpufleet simulate"), f"$ {command}\n{said}"
            assert time.monotonic() < limit_s, f"$ {command}\n{said}\nnever: {wanted}"
            time.sleep(0.5)
