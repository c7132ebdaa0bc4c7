"""The walk of a fleet, typed: policy, projects, rollouts, a parked notebook, and nothing left at the end."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.conventions.project import ROOT
from tests.localkube.cluster import real_node_programs
from tests.localkube.walk import newcomers_shell, walk

LIMIT_S = 2700
"""For a machine that compiles kernels first and works for other tests beside: slowness is no failure."""


@pytest.mark.timeout(LIMIT_S)
def test_every_command_of_the_walk_does_what_the_page_says(tmp_path: Path) -> None:
    real_node_programs()
    pid = tmp_path / "checkout" / "operate-walk" / "pid"
    with newcomers_shell(tmp_path) as shell:
        try:
            assert walk(ROOT / "docs" / "operate-walk.md", shell, tmp_path / "memory") > 25
        finally:
            # A walk that breaks off leaves the operator at work.
            if pid.exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGTERM)
