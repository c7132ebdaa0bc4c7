"""Pages whose commands need no cluster: every command, typed as it stands, does what the page says."""

import os
import re
from pathlib import Path

from tests.cli import bill_of_the_walk, history_of_the_page
from tests.conventions.project import ROOT
from tests.ledger.example_day import BILL, FILE, bill, example
from tests.localkube.walk import newcomers_shell, walk

DOCS = ROOT / "docs"


def test_every_command_of_a_page_does_what_it_says(tmp_path: Path) -> None:
    with newcomers_shell(tmp_path) as shell:
        assert walk(DOCS / "moving-to-queues.md", shell, tmp_path / "memory") == 1


def test_the_dashboards_are_written_as_the_page_says(tmp_path: Path) -> None:
    with newcomers_shell(tmp_path) as shell:
        assert walk(DOCS / "dashboards.md", shell, tmp_path / "memory") == 1


def test_a_day_costs_what_the_page_says(tmp_path: Path) -> None:
    assert FILE.read_bytes() == example()
    assert BILL.read_text(encoding="utf-8") == bill()
    with newcomers_shell(tmp_path) as shell:
        assert walk(DOCS / "cost.md", shell, tmp_path / "memory") == 7


def test_a_month_is_closed_with_a_bill_as_the_page_says(tmp_path: Path) -> None:
    """The sums of the bill and of the accounts are another program's."""
    assert bill_of_the_walk.FILE.read_text(encoding="utf-8") == bill_of_the_walk.bill()
    with newcomers_shell(tmp_path) as shell:
        assert walk(DOCS / "cost-walk.md", shell, tmp_path / "memory") == 7


def test_a_month_is_planned_as_the_page_says(tmp_path: Path) -> None:
    """The replay of what the plan wrote is another command, which reads it from the files."""
    assert history_of_the_page.FILE.read_text(encoding="utf-8") == history_of_the_page.history()
    with newcomers_shell(tmp_path) as shell:
        assert walk(DOCS / "plan-history.md", shell, tmp_path / "memory") == 8


def test_a_trace_is_replayed_as_the_page_says(tmp_path: Path) -> None:
    with newcomers_shell(tmp_path) as shell:
        assert walk(DOCS / "replay.md", shell, tmp_path / "memory") == 9
    placements = tmp_path / "checkout" / "fixed" / "placements-fgd-42.csv"
    # a line for each of the 500 tasks and one for the names of the columns
    assert len(placements.read_text(encoding="utf-8").splitlines()) == 501


def test_the_story_on_the_page_of_scenarios_comes_out_as_it_expects(tmp_path: Path) -> None:
    page = DOCS / "scenarios.md"
    story = re.search(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert story is not None
    with newcomers_shell(tmp_path) as shell:
        (tmp_path / "checkout" / "my-story.yaml").write_text(story[1], encoding="utf-8")
        assert walk(page, shell, tmp_path / "memory") == 1


def test_completions_are_where_the_page_of_commands_puts_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    with newcomers_shell(tmp_path) as shell:
        own = {**shell, "HOME": str(home), "XDG_CACHE_HOME": cache}
        walk(DOCS / "commands.md", own, tmp_path / "memory")
    assert "gpufleet" in (home / ".config" / "fish" / "completions" / "gpufleet.fish").read_text("utf-8")
    assert (home / ".bashrc").read_text("utf-8") == 'eval "$(gpufleet completion bash)"\n'
