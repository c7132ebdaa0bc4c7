"""The page on which nodes come and go: every command, typed as it stands there, does what it says."""

import contextlib
import os
import signal
from pathlib import Path

from gpufleet.localkube.control_plane import Options
from tests.conventions.project import ROOT
from tests.karpenter import programs
from tests.localkube.cluster import all_programs
from tests.localkube.walk import newcomers_shell, walk


def test_every_command_of_the_walk_does_what_the_page_says(tmp_path: Path) -> None:
    all_programs(Options())
    assert programs.program().parent.name == f"karpenter-{programs.KARPENTER.version}", "as the script says"
    programs.definitions()
    pid = tmp_path / "checkout" / "scale-walk" / "pid"
    with newcomers_shell(tmp_path) as shell:
        try:
            assert walk(ROOT / "docs" / "scale-walk.md", shell, tmp_path / "memory") > 15
        finally:
            # A walk that breaks off leaves Karpenter at work.
            if pid.exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGTERM)
