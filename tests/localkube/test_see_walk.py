"""The walk with a fault: every command of the page, with a real Prometheus, does what it says."""

import contextlib
import os
import shutil
import signal
from pathlib import Path

from tests.conventions.project import ROOT
from tests.lacking import lacking
from tests.localkube.cluster import real_node_programs
from tests.localkube.walk import newcomers_shell, walk


def test_every_command_of_the_walk_does_what_the_page_says(tmp_path: Path) -> None:
    real_node_programs()
    if shutil.which("prometheus") is None:
        lacking("there is no prometheus on PATH; Debian's package has that name")
    pid = tmp_path / "checkout" / "see-walk" / "pid"
    with newcomers_shell(tmp_path) as shell:
        try:
            assert walk(ROOT / "docs" / "see-walk.md", shell, tmp_path / "memory") > 15
        finally:
            # A walk that breaks off leaves Prometheus at work.
            if pid.exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGTERM)
