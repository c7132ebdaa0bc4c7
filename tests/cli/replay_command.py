"""Runs ``gpufleet`` as a person would: a process of its own, on small files."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_S = 60
OF_THE_MACHINE = re.compile(r'"(?:decision|wall)_seconds": (?:\{[^}]*\}|[\d.]+)|"peak_rss_mib": [\d.]+')


def gpufleet(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, waited for."""
    return subprocess.run(
        [sys.executable, "-m", "gpufleet", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=PATIENCE_S,
    )


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    """The command in a process group of its own, as a shell would start it.

    Whoever runs tests in the background has Ctrl-C ignored, and so would what is started.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "gpufleet", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def wait_until(happened: Callable[[], object]) -> None:
    """Look again and again."""
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code and output, once it has ended; nobody of its group may be left."""
    out, err = process.communicate(timeout=PATIENCE_S)
    wait_until(lambda: group_is_empty(process.pid))
    return process.returncode, out, err


def group_is_empty(group: int) -> bool:
    """True if no process of this group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C: the terminal sends it to every process of the group."""
    os.killpg(process.pid, signal.SIGINT)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes of a sweep."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in children.split() if b"spawn_main" in command_line(int(child))]


def command_line(process: int) -> bytes:
    """What a process was started with."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def results(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def without_machine(text: str) -> str:
    """The JSON without its times and memory, and without the command line."""
    return OF_THE_MACHINE.sub("-", re.sub(r'"command": ".*"', "-", text))
