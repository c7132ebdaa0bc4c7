"""The scenarios that ship: all come out as they say, and each names its source."""

from pathlib import Path

import pytest

from gpufleet.scenario.command import files_of
from gpufleet.scenario.play import play_file
from tests.house.project import ROOT

FILES = files_of([ROOT / "scenarios"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_comes_out_as_it_says(path: Path) -> None:
    outcome = play_file(path)
    assert not outcome.differences, "\n".join(map(str, outcome.differences))
    assert len(outcome.source) > 20, "name the document, or show the arithmetic"


def test_each_tells_another_story() -> None:
    titles = [play_file(path).title for path in FILES]
    assert len(set(titles)) == len(titles)
