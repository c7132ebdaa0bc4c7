"""Copies a model or a dataset from a store to the cache of a node, whole or not at all.

A folder with a mark arrives in ``STAGING`` under a mark that says that it is incomplete, and is renamed to
its place when everything is on the disk. A revision of Hugging Face's hub arrives as its libraries would copy
it: blobs one by one under their digests, then the snapshot by one rename. So a reader never finds a part that
says that it is whole, wherever the copy was broken off, and the next try goes on with the files that are
there.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from gpufleet.agent.data.data_folders import MARK, MARK_BYTES_MAX, Mark
from gpufleet.agent.data.held_folder import HeldFolder
from gpufleet.agent.data.staged_names import STAGING, repository_name, staged_name
from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.kube.objects.node_data import DataEntry

CHUNK_BYTES = 4 << 20
"""What is read and written at once: enough for any disk, and the limit of bandwidth is met closely."""

DEPTH_MAX = 16
"""Folders in folders of a copy: models have one or two levels."""

_SNAPSHOT = "snapshot"
Pace = Callable[[int], None]
"""Called after so many bytes were copied; waits, and raises CopyStoppedError where the copy is to end."""

_ENCODER = msgspec.json.Encoder()


def copy_entry(entry: DataEntry, cache: Path, pace: Pace) -> None:
    """Copy what a store has to the cache; a copy that is there already is left as it is.

    Raises NotCopiedError, CopyStoppedError and OSError.
    """
    source_place = Path(entry.folder)
    with HeldFolder.at(source_place) as source, HeldFolder.at(cache) as target:
        with target.made(STAGING) as staging:
            if source.state(MARK) is None:
                _copy_revision(entry, source, target, staging, pace)
            else:
                _copy_marked(entry, source, target, staging, pace)
            staging.sync()
        target.sync()


def _copy_marked(
    entry: DataEntry, source: HeldFolder, cache: HeldFolder, staging: HeldFolder, pace: Pace
) -> None:
    name = staged_name(entry)
    if cache.state(name) is not None:
        return
    mark = Mark(f"{entry.kind}/{entry.name}", 0, entry.revision)
    with staging.made(name) as arriving:
        write_mark(arriving, mark)
        counted, said = Counted(pace), _mark_of(source)
        _copy_inside(source, arriving, counted, DEPTH_MAX)
        if _mark_of(source) != said:
            raise NotCopiedError(f"{source.place} changed while it was copied")
        arriving.sync()
        write_mark(arriving, msgspec.structs.replace(mark, size_bytes=counted.copied_bytes, complete=True))
    staging.move(name, cache, name)


def _mark_of(source: HeldFolder) -> bytes:
    read = source.reading(MARK)
    try:
        return os.read(read, MARK_BYTES_MAX)
    finally:
        os.close(read)


class Counted:
    """Counts what is there of a copy: what this try copied, and what an earlier one had."""

    def __init__(self, pace: Pace) -> None:
        self.copied_bytes = 0
        self._pace = pace

    def __call__(self, number: int) -> None:
        """So many bytes more were copied."""
        self.copied_bytes += number
        self._pace(number)

    def found(self, number: int) -> None:
        """So many bytes were there already."""
        self.copied_bytes += number


@contextlib.contextmanager
def _inside(
    source: HeldFolder, target: HeldFolder, name: str, depth: int
) -> Iterator[tuple[HeldFolder, HeldFolder]]:
    """A folder of the source and the same one of the target, which is on the disk once all in it is."""
    if not depth:
        raise NotCopiedError(f"{source.place}: more than {DEPTH_MAX} folders in folders")
    with source.folder(name) as inner, target.made(name) as inner_target:
        yield inner, inner_target
        inner_target.sync()


def _copy_inside(source: HeldFolder, target: HeldFolder, counted: Counted, depth: int) -> None:
    had = {one.name for one in source.entries()} | {MARK}
    for left in [one.name for one in target.entries() if one.name not in had]:
        # An earlier try may have copied what the source has no more.
        target.remove(left)
    for one in source.entries():
        if one.is_dir(follow_symlinks=False):
            with _inside(source, target, one.name, depth) as (inner, inner_target):
                _copy_inside(inner, inner_target, counted, depth - 1)
        elif one.name != MARK:
            _copy_file(source, one.name, target, one.name, counted)


def _copy_file(source: HeldFolder, name: str, target: HeldFolder, new_name: str, counted: Counted) -> None:
    """Copy one file, unless an earlier try did: the time of change is set last of all."""
    read = source.reading(name)
    try:
        state = os.fstat(read)
        there = target.state(new_name)
        if there is not None and (there.st_size, there.st_mtime_ns) == (state.st_size, state.st_mtime_ns):
            counted.found(state.st_size)
            return
        target.remove(new_name)
        written = target.new_file(new_name)
        try:
            while chunk := os.read(read, CHUNK_BYTES):
                write_all(written, chunk)
                counted(len(chunk))
            after = os.fstat(read)
            if (after.st_size, after.st_mtime_ns) != (state.st_size, state.st_mtime_ns):
                raise NotCopiedError(f"{source.place}/{name} changed while it was copied")
            os.fsync(written)
            os.utime(written, ns=(state.st_atime_ns, state.st_mtime_ns))
        finally:
            os.close(written)
    finally:
        os.close(read)


def write_all(descriptor: int, chunk: bytes) -> None:
    """All of a chunk, however much a call takes."""
    left = memoryview(chunk)
    while left:
        left = left[os.write(descriptor, left) :]


def write_mark(folder: HeldFolder, mark: Mark) -> None:
    """What a copy says of itself."""
    write_file(folder, MARK, _ENCODER.encode(mark))


def write_file(folder: HeldFolder, name: str, content: bytes) -> None:
    """A small file, whole or as it was before."""
    beside = f".{name}.part"
    folder.remove(beside)
    written = folder.new_file(beside)
    try:
        write_all(written, content)
        os.fsync(written)
    finally:
        os.close(written)
    folder.move(beside, folder, name)
    folder.sync()


def _copy_revision(
    entry: DataEntry, source: HeldFolder, cache: HeldFolder, staging: HeldFolder, pace: Pace
) -> None:
    """A revision of a repository: its blobs, its snapshot, and then the branches that point to it."""
    counted = Counted(pace)
    with cache.made(repository_name(entry)) as repository:
        with repository.made("snapshots") as there:
            if there.state(entry.revision) is None:
                with staging.made(staged_name(entry)) as arriving:
                    _copy_snapshot(entry.revision, source, repository, arriving, counted)
                    arriving.move(_SNAPSHOT, there, entry.revision)
                there.sync()
        write_branches(repository, entry)
    staging.remove(staged_name(entry))


def write_branches(repository: HeldFolder, entry: DataEntry) -> None:
    """The branches that point to a revision, once its snapshot is in its place."""
    with repository.made("refs") as references:
        for branch in entry.branches:
            write_file(references, branch, entry.revision.encode())
    repository.sync()


def _copy_snapshot(
    revision: str, source: HeldFolder, repository: HeldFolder, arriving: HeldFolder, counted: Counted
) -> None:
    """The blobs of a revision to their places, and its links to a folder that is not in its place yet."""
    with (
        source.folder("snapshots") as snapshots,
        snapshots.folder(revision) as snapshot,
        source.folder("blobs") as blobs,
        repository.made("blobs") as new_blobs,
    ):
        _copy_blobs(snapshot, blobs, new_blobs, arriving, counted)
        new_blobs.sync()
        arriving.remove(_SNAPSHOT)
        with arriving.made(_SNAPSHOT) as made:
            _copy_links(snapshot, made, counted, DEPTH_MAX)
            made.sync()


def _copy_blobs(
    snapshot: HeldFolder, blobs: HeldFolder, target: HeldFolder, arriving: HeldFolder, counted: Counted
) -> None:
    """The blobs that a snapshot's links lead to; one that is there under its digest is the same."""
    for digest in sorted(digests_of(snapshot)):
        there = target.state(digest)
        if there is not None:
            counted.found(there.st_size)
            continue
        _copy_file(blobs, digest, arriving, digest, counted)
        arriving.move(digest, target, digest)


def digests_of(snapshot: HeldFolder, depth: int = DEPTH_MAX) -> set[str]:
    """The blobs that a snapshot leads to. Raises NotCopiedError for a link to anything else."""
    found: set[str] = set()
    for one in snapshot.entries():
        if one.is_symlink():
            found.add(_blob_of(snapshot, one.name))
        elif one.is_dir(follow_symlinks=False) and depth:
            with snapshot.folder(one.name) as inner:
                found |= digests_of(inner, depth - 1)
    return found


def _blob_of(snapshot: HeldFolder, name: str) -> str:
    """The blob that a link of a snapshot leads to. Raises NotCopiedError for a link to anywhere else."""
    target = PurePosixPath(snapshot.target(name))
    if target.parent.name != "blobs" or target.name in ("", ".", ".."):
        raise NotCopiedError(f"{snapshot.place}/{name} leads to no blob")
    return target.name


def _copy_links(snapshot: HeldFolder, target: HeldFolder, counted: Counted, depth: int) -> None:
    """The links of a snapshot, as far above the blobs as they are there; files where there are no links."""
    for one in snapshot.entries():
        if one.is_symlink():
            above = DEPTH_MAX - depth + 2
            target.new_link(one.name, f"{'../' * above}blobs/{_blob_of(snapshot, one.name)}")
        elif one.is_dir(follow_symlinks=False):
            with _inside(snapshot, target, one.name, depth) as (inner, inner_target):
                _copy_links(inner, inner_target, counted, depth - 1)
        else:
            _copy_file(snapshot, one.name, target, one.name, counted)
