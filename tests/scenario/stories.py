"""Scenarios as text: builders, so that a test shows only what matters to it."""

from pathlib import Path

from gpufleet.scenario.play import PlayOutcome, play_file

HEAD = """\
scenario: v1
title: A story
source: by hand
"""


def written(folder: Path, body: str) -> Path:
    """A scenario file with this body."""
    path = folder / "story.yaml"
    path.write_text(HEAD + body, encoding="utf-8")
    return path


def played(folder: Path, body: str) -> PlayOutcome:
    """What came of a scenario with this body."""
    return play_file(written(folder, body))
