"""Brings what a store offers into the cache of a node, whole or not at all.

A copy arrives as one from a folder does (``copying``): under a mark that says that it is incomplete, or in
the layout of the hub's cache, and by one rename at last. A file counts once its size and its digest are
right; one that broke off goes on where it ended.
"""

import os

import msgspec

from gpufleet.agent.data.copying import CHUNK_BYTES, Counted, Pace, write_all, write_file, write_mark
from gpufleet.agent.data.data_folders import Mark
from gpufleet.agent.data.held_folder import HeldFolder
from gpufleet.agent.data.sources.http_reader import HttpReader
from gpufleet.agent.data.sources.offer import Offer, RemoteFile
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
        counted = Counted(pace)
        for one in offer.files:
            _bring_inside(one, one.path, reader, arriving, counted)
        arriving.sync()
        write_mark(arriving, msgspec.structs.replace(mark, size_bytes=counted.copied_bytes, complete=True))
    staging.move(name, cache, name)


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
    there = folder.state(name)
    if there is not None and there.st_size == one.size_bytes:
        counted.found(one.size_bytes)
        return
    part = f".{name}.part"
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


class _WrongContentError(NotCopiedError):
    """The file is not what the store said of it."""


def _fill(one: RemoteFile, reader: HttpReader, written: int, counted: Counted) -> None:
    """Add to a file what it lacks, and compare its digest."""
    there_bytes = min(os.fstat(written).st_size, one.size_bytes)
    with reader.file(one.url, one.size_bytes, there_bytes) as (answer, begins):
        os.ftruncate(written, begins)
        digest = one.checksum.begun(one.size_bytes)
        at = 0
        while at < begins:
            chunk = os.pread(written, min(CHUNK_BYTES, begins - at), at)
            digest.update(chunk)
            at += len(chunk)
        counted.found(begins)
        os.lseek(written, begins, os.SEEK_SET)
        while chunk := answer.read1(CHUNK_BYTES):
            at += len(chunk)
            if at > one.size_bytes:
                break
            write_all(written, chunk)
            digest.update(chunk)
            counted(len(chunk))
    if at < one.size_bytes:
        raise NotCopiedError(f"{one.url} broke off after {at} of {one.size_bytes} bytes")
    if at > one.size_bytes:
        raise _WrongContentError(f"{one.url} has more than the {one.size_bytes} bytes that were said")
    if digest.hexdigest() != one.checksum.digest:
        problem = f"{one.url} has not the digest {one.checksum.algorithm}:{one.checksum.digest}"
        raise _WrongContentError(problem)


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
        with repository.made("refs") as references:
            for branch in entry.branches:
                write_file(references, branch, entry.revision.encode())
        repository.sync()
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
