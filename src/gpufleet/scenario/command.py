"""Plays the scenarios of files and folders, one after the other."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from gpufleet.model.model_errors import InputError
from gpufleet.scenario.play import PlayOutcome, play_file
from gpufleet.scenario.scenario_errors import ScenarioError

SUFFIXES = (".yaml", ".yml")


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and those below the folders, in the order of their names."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())
            if not inside:
                raise ScenarioError("no scenario in this folder", where=str(path), expected="files *.yaml")
            found += inside
        else:
            found.append(path)
    return found


def play_files(files: Iterable[Path]) -> Iterator[PlayOutcome | InputError]:
    """What came of each file; a bad one is told as such and does not keep the others from being played."""
    for path in files:
        try:
            yield play_file(path)
        except InputError as problem:
            yield problem
