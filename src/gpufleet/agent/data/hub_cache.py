"""A repository in a cache of Hugging Face's hub, as its libraries lay it out.

``models--ORG--NAME`` has three folders: ``blobs`` with the files by their digest, ``refs`` with a file for
each branch or tag that holds its commit, and ``snapshots`` with a folder for each commit, of links into
``blobs``. A blob that is still being copied ends in ``.incomplete``. The layout is described in the
documentation of huggingface_hub, "Understand caching".
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gpufleet.files.regular import UnfitFileError, read_regular
from gpufleet.kube.objects.node_data import DATASET, MODEL, DataEntry

PREFIXES = {"models": MODEL, "datasets": DATASET}
SEPARATOR = "--"
INCOMPLETE = ".incomplete"
COMMIT = re.compile(r"[0-9a-f]{40}")
REF_BYTES_MAX = 200
"""A ref holds a commit, of 40 characters."""

FILES_MAX = 5000
"""Files of one snapshot that are counted: the largest models have some hundreds."""

DEPTH_MAX = 4
"""Folders in folders of a snapshot: repositories have one or two levels."""

REFS_MAX = 16
"""Branches and tags of a repository that are told; copies have one or two."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
"""A part of a repository's name on the hub."""


def repository_of(folder: str) -> tuple[str, str] | None:
    """Kind and name of the repository that a folder of this name holds; None for any other folder."""
    prefix, *parts = folder.split(SEPARATOR)
    kind = PREFIXES.get(prefix)
    if kind is None or not 1 <= len(parts) <= 2 or not all(_REPOSITORY.fullmatch(one) for one in parts):
        return None
    return kind, "/".join(parts)


def hub_entries(folder: Path, place: str, kind: str, name: str) -> Iterator[DataEntry]:
    """Each revision in a repository's folder, of which ``place`` is the path in words. Raises OSError where
    it cannot be read.
    """
    blobs = _sizes_of(folder / "blobs")
    arriving = any(one.endswith(INCOMPLETE) for one in blobs)
    branches = _branches_of(folder / "refs")
    for revision in sorted(_folders_of(folder / "snapshots")):
        if not COMMIT.fullmatch(revision):
            continue
        found, missing = 0, 0
        for size_bytes in _snapshot_sizes(folder / "snapshots" / revision, blobs, DEPTH_MAX):
            found += size_bytes or 0
            missing += size_bytes is None
        yield DataEntry(
            kind,
            name,
            found,
            # Which revision a blob that still arrives belongs to is written nowhere, so it counts for all.
            complete=found > 0 and missing == 0 and not arriving,
            folder=place,
            revision=revision,
            branches=tuple(sorted(one for one, commit in branches.items() if commit == revision)),
        )


def _sizes_of(folder: Path) -> dict[str, int]:
    """The sizes of the files in a folder, by name; none where there is no folder."""
    try:
        with os.scandir(folder) as inside:
            return {
                one.name: one.stat(follow_symlinks=False).st_size
                for one in inside
                if one.is_file(follow_symlinks=False)
            }
    except FileNotFoundError:
        return {}


def _folders_of(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as inside:
            return [one.name for one in inside if one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _branches_of(folder: Path) -> dict[str, str]:
    """The commits of branches and tags; a file that holds none is left out."""
    found = {}
    for name in sorted(_sizes_of(folder))[:REFS_MAX]:
        try:
            text = read_regular(folder / name, REF_BYTES_MAX, follow_links=False).decode("ascii").strip()
        except (UnfitFileError, UnicodeDecodeError):
            continue
        if COMMIT.fullmatch(text):
            found[name] = text
    return found


def _snapshot_sizes(folder: Path, blobs: dict[str, int], depth: int) -> Iterator[int | None]:
    """The size of each file of a snapshot; None for a link whose blob is not there."""
    with os.scandir(folder) as inside:
        for number, one in enumerate(inside):
            if number == FILES_MAX:
                yield None
                return
            if one.is_dir(follow_symlinks=False):
                if depth:
                    yield from _snapshot_sizes(Path(one.path), blobs, depth - 1)
                else:
                    yield None
            elif one.is_symlink():
                # Only the link's text is read, so that a planted link leads nowhere.
                target = Path(one.path).readlink()
                yield blobs.get(target.name) if target.parent.name == "blobs" else None
            else:
                # Where a file system has no links the libraries put the file itself here.
                yield one.stat(follow_symlinks=False).st_size
