"""The walk with the doctor: every command of the page, typed as it stands, does what it says."""

from pathlib import Path

from gpufleet.localkube.control_plane import Options
from tests.conventions.project import ROOT
from tests.localkube.cluster import all_programs
from tests.localkube.walk import newcomers_shell, walk

PAGE = ROOT / "docs" / "doctor.md"


def test_every_command_of_the_walk_does_what_the_page_says(tmp_path: Path) -> None:
    all_programs(Options())
    with newcomers_shell(tmp_path) as shell:
        assert walk(PAGE, shell, tmp_path / "memory") > 6
