"""The five minutes with GPUs: every command of that page, typed as it stands there, does what it says."""

import contextlib
import os
import signal
from pathlib import Path

from tests.conventions.project import ROOT
from tests.localkube.cluster import real_node_programs
from tests.localkube.walk import newcomers_shell, walk


def test_every_command_of_the_walk_does_what_the_page_says(tmp_path: Path) -> None:
    real_node_programs()
    pid = tmp_path / "checkout" / "gpu-walk" / "pid"
    with newcomers_shell(tmp_path) as shell:
        try:
            assert walk(ROOT / "docs" / "gpu-walk.md", shell, tmp_path / "memory") > 30
        finally:
            # A walk that breaks off leaves the operator at work.
            if pid.exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGTERM)
