"""The walk with an autoscaler: every command of docs/metrics-apis.md does what the page says."""

from pathlib import Path

from tests.conventions.project import ROOT
from tests.localkube.cluster import real_node_programs
from tests.localkube.walk import newcomers_shell, walk


def test_every_command_of_the_walk_does_what_the_page_says(tmp_path: Path) -> None:
    real_node_programs()
    with newcomers_shell(tmp_path) as shell:
        assert walk(ROOT / "docs" / "metrics-apis.md", shell, tmp_path / "memory") > 9
