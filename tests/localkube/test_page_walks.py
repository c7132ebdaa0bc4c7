"""Pages that build a local cluster: every command, typed as it stands, does what the page says."""

from pathlib import Path

import pytest

from gpufleet.localkube.control_plane import Options
from tests.conventions.project import ROOT
from tests.localkube.cluster import all_programs, real_node_programs
from tests.localkube.walk import newcomers_shell, walk


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/getting-started.md",
        "examples/README.md",
        "docs/explain.md",
        "docs/top.md",
        "docs/guides-walk.md",
    ],
)
def test_every_command_of_the_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    all_programs(Options())
    with newcomers_shell(tmp_path) as shell:
        assert walk(ROOT / page, shell, tmp_path / "memory") > 1


def test_a_snapshot_is_asked_and_rerun_as_the_pages_say(tmp_path: Path) -> None:
    """The pages of snapshots and plans go on with the cluster of the page of what-if."""
    all_programs(Options())
    with newcomers_shell(tmp_path) as shell:
        assert walk(ROOT / "docs" / "whatif.md", shell, tmp_path / "memory") > 1
        assert walk(ROOT / "docs" / "snapshots.md", shell, tmp_path / "memory") > 1
        assert walk(ROOT / "docs" / "plan.md", shell, tmp_path / "memory") > 1


def test_a_local_cluster_comes_and_goes_as_the_page_says(tmp_path: Path) -> None:
    """The last of the page's clusters has a real node."""
    real_node_programs()
    with newcomers_shell(tmp_path) as shell:
        assert walk(ROOT / "docs" / "local-cluster.md", shell, tmp_path / "memory") > 1
