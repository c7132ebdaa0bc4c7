"""Folders as layers of an image: the same files give the same bytes, whoever packs them and when.

Names are sorted, times and owners fixed, modes reduced to what matters. Compressed, because registries and
disks want it so; gzip without a time and a name in its head.
"""

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import msgspec

EPOCH_S = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
"""The time of every file: 1980-01-01, the first that every format can hold."""

LEVEL = 5
CHUNK_BYTES = 1 << 20


class Layer(msgspec.Struct, frozen=True):
    """A packed layer: its file, and the digests with and without compression."""

    path: str
    digest: str
    content_digest: str
    size_bytes: int


class Owned(msgspec.Struct, frozen=True):
    """Who owns a folder that is not root's, and its mode."""

    user: int
    mode: int


class _Digesting(io.BytesIO):
    """A file to write to that counts what passes through, and keeps nothing."""

    def __init__(self, behind: IO[bytes] | gzip.GzipFile) -> None:
        super().__init__()
        self.hash = hashlib.sha256()
        self._behind = behind

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self.hash.update(data)
        return self._behind.write(data)


def pack(root: Path, names: Iterable[str], target: Path, owned: Mapping[str, Owned]) -> Layer:
    """Pack these files and folders (relative to ``root``, with all their parents) into ``target``."""
    with target.open("wb") as file:
        outer = _Digesting(file)
        with gzip.GzipFile("", "wb", LEVEL, outer, mtime=0) as packed:
            inner = _Digesting(packed)
            with tarfile.open(fileobj=inner, mode="w|", format=tarfile.PAX_FORMAT) as archive:
                for name in sorted(with_parents(names)):
                    _add(archive, root, name, owned.get(name))
    size_bytes = target.stat().st_size
    return Layer(
        str(target), f"sha256:{outer.hash.hexdigest()}", f"sha256:{inner.hash.hexdigest()}", size_bytes
    )


def with_parents(names: Iterable[str]) -> set[str]:
    """The names, and every folder that they are in."""
    found = set()
    for name in names:
        parts = name.split("/")
        found |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return found


def all_names(root: Path) -> set[str]:
    """Everything below ``root``, as relative names."""
    found = set()
    for folder, folders, files in os.walk(root):
        base = Path(folder).relative_to(root)
        found |= {str(base / name) for name in (*folders, *files)}
    return found


def _add(archive: tarfile.TarFile, root: Path, name: str, owned: Owned | None) -> None:
    path = root / name
    entry = tarfile.TarInfo(name)
    entry.mtime = EPOCH_S
    status = path.lstat()
    if owned is not None:
        entry.uid = entry.gid = owned.user
    if path.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(entry)
    elif path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755 if owned is None else owned.mode
        archive.addfile(entry)
    else:
        entry.size = status.st_size
        entry.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
        with path.open("rb") as file:
            archive.addfile(entry, file)
