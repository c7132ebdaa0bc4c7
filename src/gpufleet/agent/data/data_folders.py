"""Reads the folders of a node that hold models and datasets.

A folder is searched ``DEPTH`` levels deep for two things: repositories of a hub's cache (``hub_cache``), and
folders with a file ``.gpufleet-data.json`` in them, which says what they hold::

    {"name": "dataset/imagenet", "revision": "2012", "bytes": 150000000000, "complete": true}

Users write into these folders, so nothing in them is trusted: no link is followed, files and numbers have
limits, and what cannot be read is said of its folder and harms no other.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gpufleet.agent.data.hub_cache import hub_entries, repository_of
from gpufleet.files.regular import UnfitFileError, read_regular
from gpufleet.kube.objects.node_data import DATA_KINDS, DataEntry, DataFolder
from gpufleet.model.model_errors import printable
from gpufleet.model.visible import visible_line

MARK = ".gpufleet-data.json"
MARK_BYTES_MAX = 4096
"""A mark has four fields."""

DEPTH = 2
"""A hub's home has ``hub`` and, in that, the repositories; deeper is data itself."""

FOLDERS_MAX = 2000
"""Folders that are looked into: more than a node has models, and it bounds the time of a reading."""

PROBLEM_CHARACTERS_MAX = 300
"""What a folder's problem may have in NodeData."""

PLACE_CHARACTERS_MAX = 1024
"""What the path of an entry may have in NodeData."""

SHOWN_CHARACTERS = 60
"""What a problem shows of a name that cannot be."""

FREE_STEPS = 100
"""Free room is told in steps of one per cent, so that it does not change with every file."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,252}")
_REVISION = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]{0,127})?")


class FoundData(msgspec.Struct, frozen=True):
    """What all folders hold, and how each of them is; the images of the node may be added."""

    entries: tuple[DataEntry, ...] = ()
    folders: tuple[DataFolder, ...] = ()


class Mark(msgspec.Struct, frozen=True):
    """What ``.gpufleet-data.json`` says. Without ``complete`` the data still arrives."""

    name: str
    size_bytes: int = msgspec.field(name="bytes")
    revision: str = ""
    complete: bool = False


_MARK = msgspec.json.Decoder(Mark)


class _UnreadError(Exception):
    """A part of a folder cannot be read, and why."""


class _Reading:
    """One reading of one folder."""

    def __init__(self) -> None:
        self.problem = ""
        """The first thing that could not be read."""
        self._left = FOLDERS_MAX

    def entries(self, folder: Path, depth: int = DEPTH) -> Iterator[DataEntry]:
        """What a folder and those in it hold."""
        self._left -= 1
        if self._left < 0:
            self._tell(f"more than {FOLDERS_MAX} folders: the rest is not read")
            return
        place = visible_line(str(folder))
        if len(place) > PLACE_CHARACTERS_MAX:
            self._tell(f"a path of {len(place)} characters is not read: {place}")
            return
        try:
            repository = repository_of(folder.name)
            if repository is not None:
                yield from hub_entries(folder, place, *repository)
                return
            marked = _marked(folder, place)
            if marked is not None:
                yield marked
                return
            inside = _folders_in(folder) if depth else []
        except (_UnreadError, OSError) as error:
            self._tell(str(error))
            return
        for one in inside:
            yield from self.entries(one, depth - 1)

    def _tell(self, problem: str) -> None:
        self.problem = self.problem or visible_line(problem)[:PROBLEM_CHARACTERS_MAX]


def read_folders(folders: Sequence[Path]) -> FoundData:
    """What these folders hold. Never raises for what is in them; it may wait for a slow disk."""
    entries: list[DataEntry] = []
    states: list[DataFolder] = []
    for folder in folders:
        reading = _Reading()
        entries += reading.entries(folder)
        states.append(_state(folder, reading.problem))
    return FoundData(tuple(entries), tuple(states))


def _state(folder: Path, problem: str) -> DataFolder:
    try:
        system = os.statvfs(folder)
    except OSError as error:
        return DataFolder(str(folder), problem=problem or visible_line(str(error))[:PROBLEM_CHARACTERS_MAX])
    size_bytes = system.f_blocks * system.f_frsize
    free_bytes = system.f_bavail * system.f_frsize
    step = max(1, size_bytes // FREE_STEPS)
    return DataFolder(str(folder), size_bytes, free_bytes // step * step, problem)


def _folders_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as inside:
        return sorted(Path(one.path) for one in inside if one.is_dir(follow_symlinks=False))


def _marked(folder: Path, place: str) -> DataEntry | None:
    """What the mark of a folder says; None where it has none. Raises _UnreadError."""
    path = folder / MARK
    try:
        mark = _MARK.decode(read_regular(path, MARK_BYTES_MAX, follow_links=False))
    except FileNotFoundError:
        return None
    except (UnfitFileError, msgspec.DecodeError) as error:
        raise _UnreadError(f"{path}: {error}") from error
    kind, _, name = mark.name.partition("/")
    if kind not in DATA_KINDS or not _NAME.fullmatch(name):
        raise _misfit(path, "name", mark.name, "model/NAME or dataset/NAME")
    if not _REVISION.fullmatch(mark.revision):
        raise _misfit(path, "revision", mark.revision, "letters, digits, and . _ / -")
    if not 0 <= mark.size_bytes < 1 << 63:
        raise _misfit(path, "bytes", mark.size_bytes, "a number of bytes")
    return DataEntry(kind, name, mark.size_bytes, mark.complete, place, mark.revision)


def _misfit(path: Path, field: str, value: object, expected: str) -> _UnreadError:
    return _UnreadError(f"{path}: {field} is {printable(value, SHOWN_CHARACTERS)}, expected {expected}")
