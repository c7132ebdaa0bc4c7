"""Brings what a store offers into the cache of a node, whole or not at all.

A copy arrives as one from a folder does (``copying``): under a mark that says that it is incomplete, or in
the layout of the hub's cache, and by one rename at last. A file counts once its size and its digest are
right; one that broke off goes on where it ended.
"""

import os
import stat
from collections.abc import Iterable

import msgspec

from gpufleet.agent.data.copying import CHUNK_BYTES, Counted, Pace, write_all, write_branches, write_mark
from gpufleet.agent.data.data_folders import MARK, Mark
from gpufleet.agent.data.held_folder import HeldFolder
from gpufleet.agent.data.sources.http_reader import HttpReader
from gpufleet.agent.data.sources.offer import Hash, Offer, RemoteFile
from gpufleet.agent.data.staged_names import STAGING, repository_name, staged_name
from gpufleet.agent.data.staging_errors import NotCopiedError

_SNAPSHOT = "snapshot"


def copy_offer(offer: Offer, reader: HttpReader, cache: HeldFolder, pace: Pace) -> None:
    """Bring all files; a copy that is there already is left as it is.

    Raises NotCopiedError, CopyStoppedError and OSError.
    """
    with cache.made(STAGING) as staging:
        if offer.is_hub:
            _bring_revision(offer, reader, cache, staging, pace)
        else:
            _bring_marked(offer, reader, cache, staging, pace)
        staging.sync()
    cache.sync()


def _bring_marked(
    offer: Offer, reader: HttpReader, cache: HeldFolder, staging: HeldFolder, pace: Pace
) -> None:
    entry, name = offer.entry, staged_name(offer.entry)
    if cache.state(name) is not None:
        return
    mark = Mark(f"{entry.kind}/{entry.name}", 0, entry.revision)
    with staging.made(name) as arriving:
        write_mark(arriving, mark)
        _drop_others([(MARK,), *(one.path for one in offer.files)], arriving)
        counted = Counted(pace)
        for one in offer.files:
            _bring_inside(one, one.path, reader, arriving, counted)
        arriving.sync()
        write_mark(arriving, msgspec.structs.replace(mark, size_bytes=counted.copied_bytes, complete=True))
    staging.move(name, cache, name)


def _drop_others(paths: Iterable[tuple[str, ...]], folder: HeldFolder) -> None:
    """Remove what an earlier try brought and the store does not name any more."""
    files: set[str] = set()
    inner: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in paths:
        if rest:
            inner.setdefault(first, []).append(tuple(rest))
        else:
            files |= {first, _part_of(first)}
    for one in list(folder.entries()):
        is_folder = one.is_dir(follow_symlinks=False)
        if is_folder and one.name in inner:
            with folder.folder(one.name) as inside:
                _drop_others(inner[one.name], inside)
        elif is_folder or one.name not in files:
            folder.remove(one.name)


def _part_of(name: str) -> str:
    """What a file is called until it is whole."""
    return f".{name}.part"


def _bring_inside(
    one: RemoteFile, path: tuple[str, ...], reader: HttpReader, folder: HeldFolder, counted: Counted
) -> None:
    """Bring a file to its path below a folder."""
    first, *rest = path
    if rest:
        with folder.made(first) as inner:
            _bring_inside(one, tuple(rest), reader, inner, counted)
            inner.sync()
        return
    _bring_file(one, first, reader, folder, counted)


def _bring_file(one: RemoteFile, name: str, reader: HttpReader, folder: HeldFolder, counted: Counted) -> None:
    """Bring a file under a name, which it gets once it is whole."""
    if _is_there(one, name, folder, counted):
        counted.found(one.size_bytes)
        return
    folder.remove(name)
    part = _part_of(name)
    written = folder.continued_file(part)
    try:
        _fill(one, reader, written, counted)
        os.fsync(written)
    except _WrongContentError:
        # Nothing of it can be used, and the next try begins anew.
        folder.remove(part)
        raise
    finally:
        os.close(written)
    folder.move(part, folder, name)


def _is_there(one: RemoteFile, name: str, folder: HeldFolder, counted: Counted) -> bool:
    """True for a file with the size and the digest; the store may have changed since an earlier try."""
    there = folder.state(name)
    if there is None or not stat.S_ISREG(there.st_mode) or there.st_size != one.size_bytes:
        return False
    read = folder.reading(name)
    try:
        return _digest_of(one, read, one.size_bytes, counted).hexdigest() == one.checksum.digest
    finally:
        os.close(read)


class _WrongContentError(NotCopiedError):
    """The file is not what the store said of it."""


def _fill(one: RemoteFile, reader: HttpReader, written: int, counted: Counted) -> None:
    """Add to a file what it lacks, and compare its digest."""
    there_bytes = min(os.fstat(written).st_size, one.size_bytes)
    # Read before more is asked for: an answer that waits so long is given up.
    digest = _digest_of(one, written, there_bytes, counted)
    if there_bytes == one.size_bytes:
        # An earlier try ended before the rename. A server refuses a range that begins where the file ends.
        os.ftruncate(written, there_bytes)
        counted.found(there_bytes)
    else:
        digest = _fetch(one, reader, written, there_bytes, digest, counted)
    if digest.hexdigest() != one.checksum.digest:
        problem = f"{one.url} has not the digest {one.checksum.algorithm}:{one.checksum.digest}"
        raise _WrongContentError(problem)


def _fetch(
    one: RemoteFile, reader: HttpReader, written: int, there_bytes: int, digest: Hash, counted: Counted
) -> Hash:
    """Write the rest of a file, of which ``digest`` has the beginning. Returns the hash of all of it."""
    with reader.file(one.url, one.size_bytes, there_bytes) as (answer, begins):
        if begins < there_bytes:
            # The server knows no ranges.
            digest = one.checksum.begun(one.size_bytes)
        os.ftruncate(written, begins)
        counted.found(begins)
        os.lseek(written, begins, os.SEEK_SET)
        at = begins
        while chunk := answer.read1(CHUNK_BYTES):
            at += len(chunk)
            if at > one.size_bytes:
                raise _WrongContentError(f"{one.url} has more than the {one.size_bytes} bytes that were said")
            write_all(written, chunk)
            digest.update(chunk)
            counted(len(chunk))
    if at < one.size_bytes:
        raise NotCopiedError(f"{one.url} broke off after {at} of {one.size_bytes} bytes")
    return digest


def _digest_of(one: RemoteFile, read: int, end: int, counted: Counted) -> Hash:
    """The hash of what an earlier try wrote of a file, up to a place."""
    digest = one.checksum.begun(one.size_bytes)
    at = 0
    while at < end and (chunk := os.pread(read, min(CHUNK_BYTES, end - at), at)):
        digest.update(chunk)
        at += len(chunk)
        # Nothing is copied here, and a copy that is wanted no more ends here too.
        counted(0)
    return digest


def _bring_revision(
    offer: Offer, reader: HttpReader, cache: HeldFolder, staging: HeldFolder, pace: Pace
) -> None:
    """A revision of a repository: its blobs, a snapshot of links to them, and the branches."""
    entry, counted = offer.entry, Counted(pace)
    with cache.made(repository_name(entry)) as repository:
        with repository.made("snapshots") as there, repository.made("blobs") as blobs:
            if there.state(entry.revision) is None:
                with staging.made(staged_name(entry)) as arriving:
                    for one in offer.files:
                        _bring_blob(one, reader, blobs, arriving, counted)
                    blobs.sync()
                    arriving.remove(_SNAPSHOT)
                    with arriving.made(_SNAPSHOT) as snapshot:
                        for one in offer.files:
                            _link(one, one.path, snapshot)
                        snapshot.sync()
                    arriving.move(_SNAPSHOT, there, entry.revision)
                there.sync()
        write_branches(repository, entry)
    staging.remove(staged_name(entry))


def _bring_blob(
    one: RemoteFile, reader: HttpReader, blobs: HeldFolder, arriving: HeldFolder, counted: Counted
) -> None:
    """A blob under its digest; one that is there is the same."""
    digest = one.checksum.digest
    if blobs.state(digest) is not None:
        counted.found(one.size_bytes)
        return
    _bring_file(one, digest, reader, arriving, counted)
    arriving.move(digest, blobs, digest)


def _link(one: RemoteFile, path: tuple[str, ...], folder: HeldFolder) -> None:
    """A link to a blob, as far above it as the file's path is deep."""
    first, *rest = path
    if rest:
        with folder.made(first) as inner:
            _link(one, tuple(rest), inner)
            inner.sync()
        return
    above = "../" * (len(one.path) + 1)
    folder.new_link(first, f"{above}blobs/{one.checksum.digest}")
