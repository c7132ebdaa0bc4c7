"""What a store has of one model or dataset: its files, with the size and the checksum of each.

Servers write these names and numbers, so each is checked before a file is made: a path stays in its folder,
and a file without a checksum is not offered. ``remote_copying`` brings the files.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Protocol

import msgspec

from gpufleet.agent.data.data_folders import MARK
from gpufleet.agent.data.held_folder import HeldFolder
from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.kube.objects.node_data import DATA_KINDS, DataEntry
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import printable

FILES_MAX = 5000
"""Files of one model or dataset: the largest models have some hundreds."""

PATH_CHARACTERS_MAX = 512
"""A path inside a repository."""

DEPTH_MAX = 16
"""Folders in folders, as in copies from folders."""

BYTES_MAX = 1 << 50
"""A pebibyte: more than any disk of a node."""

SHA256, MD5, GIT = "sha256", "md5", "git"

_DIGITS = {SHA256: 64, MD5: 32, GIT: 40}
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A part of a name, which becomes a part of an address: none is ``..``."""

_SHOWN_CHARACTERS = 80
"""What a message shows of a text that cannot be."""


class Hash(Protocol):
    """As ``hashlib`` has them."""

    def update(self, data: bytes, /) -> None:
        """So many bytes more."""
        ...

    def hexdigest(self) -> str:
        """The digest of all of them."""
        ...


class Checksum(msgspec.Struct, frozen=True):
    """The digest that a file must have, in hexadecimal digits. Raises NotCopiedError for what is none.

    ``GIT`` is that of a blob of git, which the hub has for files that it keeps in git itself. ``MD5`` finds
    damage and no intent.
    """

    algorithm: str
    digest: str

    def __post_init__(self) -> None:
        if not re.fullmatch(f"[0-9a-f]{{{_DIGITS[self.algorithm]}}}", self.digest):
            shown = printable(self.digest, _SHOWN_CHARACTERS)
            raise NotCopiedError(f"{shown} is no digest of {self.algorithm}")

    def begun(self, size_bytes: int) -> Hash:
        """A hash that the file's bytes are put into."""
        if self.algorithm == SHA256:
            return hashlib.sha256()
        if self.algorithm == MD5:
            return hashlib.md5(usedforsecurity=False)
        # Git's digest is one of a head and the content (gitformat-loose, git-hash-object).
        return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)


class RemoteFile(msgspec.Struct, frozen=True):
    """One file: its path in the copy, and where it comes from."""

    path: tuple[str, ...]
    size_bytes: int
    checksum: Checksum
    url: str


class Offer(msgspec.Struct, frozen=True):
    """All files of what was asked for; with ``is_hub`` they become a revision in a cache of the hub."""

    entry: DataEntry
    files: tuple[RemoteFile, ...]
    is_hub: bool = False


class Catalogue(Protocol):
    """A store that is asked by name."""

    address: str

    def find(self, ask: DataAsk) -> Offer | None:
        """What the store has of it; None where it has nothing. Raises NotCopiedError."""
        ...


class DataServer(Catalogue, Protocol):
    """A store that brings what it has, too."""

    def bring(self, offer: Offer, cache: HeldFolder, pace: Callable[[int], None]) -> None:
        """Copy all files into a cache. Raises NotCopiedError, CopyStoppedError and OSError."""
        ...


def offer_of(ask: DataAsk, revision: str, place: str, files: list[RemoteFile]) -> Offer:
    """An offer of these files. Raises NotCopiedError where there are none, or too many."""
    if not 1 <= len(files) <= FILES_MAX:
        raise NotCopiedError(f"{place} has {len(files)} files, expected 1 to {FILES_MAX}")
    kind, _, name = ask.name.partition("/")
    size_bytes = sum(one.size_bytes for one in files)
    entry = DataEntry(kind, name, checked_size(size_bytes, place), True, place, revision)
    return Offer(entry, tuple(files))


def checked_name(ask: DataAsk) -> tuple[str, tuple[str, ...], str]:
    """Kind, parts and revision of what is asked for, each fit for an address.

    Raises NotCopiedError: a pod's author wrote them.
    """
    kind, *parts = ask.name.split("/")
    plain = all(_PART.fullmatch(one) for one in parts)
    if kind not in DATA_KINDS or not plain or not 1 <= len(parts) <= DEPTH_MAX:
        raise NotCopiedError(f"{printable(ask.name, _SHOWN_CHARACTERS)} is no name that a store can have")
    if ask.revision and not all(_PART.fullmatch(one) for one in ask.revision.split("/")):
        shown = printable(ask.revision, _SHOWN_CHARACTERS)
        raise NotCopiedError(f"{shown} is no revision that a store can have")
    return kind, tuple(parts), ask.revision


def checked_path(written: str, place: str) -> tuple[str, ...]:
    """The parts of a path that a server wrote. Raises NotCopiedError for one that leads out of its folder."""
    parts = tuple(written.removeprefix("./").split("/"))
    plain = written.isprintable() and not any(one in ("", ".", "..", MARK) for one in parts)
    if not plain or "\\" in written or len(written) > PATH_CHARACTERS_MAX or len(parts) > DEPTH_MAX:
        raise NotCopiedError(f"{place} names the file {printable(written, _SHOWN_CHARACTERS)}")
    return parts


def checked_size(size_bytes: object, place: str) -> int:
    """A size that a server said. Raises NotCopiedError."""
    if not isinstance(size_bytes, int) or not 0 <= size_bytes <= BYTES_MAX:
        shown = printable(size_bytes, _SHOWN_CHARACTERS)
        raise NotCopiedError(f"{place} has {shown} bytes, expected 0 to {BYTES_MAX}")
    return size_bytes
