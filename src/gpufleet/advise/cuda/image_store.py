"""Where the files of a saved image lie: a folder, or an archive that is read in place.

Nothing is unpacked; names are looked up as they stand, and what is larger than a manifest or a
configuration can be is refused. ``image_files`` knows what to look for.
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from gpufleet.files.regular import open_regular, read_regular
from gpufleet.files.unpacking import MAGIC, UnpackingLimits, UnpackingStream
from gpufleet.model.model_errors import InputError

MAXIMUM_BYTES = 16 * 1024 * 1024
"""More than any index, manifest or configuration has."""

PORTION_BYTES_MAX = MAXIMUM_BYTES
MEMBERS_MAX = 100_000
"""An image has a few files for each layer."""

UNPACKING = UnpackingLimits(total_bytes=1 << 40, inflation=200, grace_bytes=256 << 20)
"""Images of a terabyte there are none; layers of programs and weights shrink to a third."""

EXPECTED = "a tar of docker save or skopeo, plain or with gzip; unpack any other first"


class Store(Protocol):
    """Files by name."""

    def read(self, name: str) -> bytes | None:
        """The file's bytes; None if there is none of that name."""


class Folder:
    """A layout that is unpacked."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> bytes | None:
        """The file's bytes; None if there is none of that name."""
        file = self.path / name
        if not file.is_file() or not file.resolve().is_relative_to(self.path.resolve()):
            return None
        return read_regular(file, MAXIMUM_BYTES)


class Archive:
    """A tar archive, plain or with gzip."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _opened(path)
        try:
            self.tar = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115  closed by close()
            self.members = {one.name.removeprefix("./"): one for one in self._all() if one.isfile()}
        except (tarfile.TarError, EOFError, OSError) as error:
            self._file.close()
            raise InputError("not an archive of an image", where=str(path), expected=EXPECTED) from error
        except InputError:
            self._file.close()
            raise

    def _all(self) -> Iterator[tarfile.TarInfo]:
        for number, member in enumerate(self.tar):
            if number >= MEMBERS_MAX:
                raise InputError(
                    f"more than {MEMBERS_MAX} files", where=str(self.path), expected="an image's archive"
                )
            yield member

    def read(self, name: str) -> bytes | None:
        """The file's bytes; None if there is none of that name."""
        member = self.members.get(name)
        if member is None:
            return None
        if member.size > MAXIMUM_BYTES:
            raise too_large(name, str(self.path))
        try:
            stream = self.tar.extractfile(member)
            return None if stream is None else stream.read()
        except (tarfile.TarError, EOFError, OSError) as error:
            raise InputError("the archive is damaged", field=name, where=str(self.path)) from error

    def close(self) -> None:
        """Let go of the file."""
        self.tar.close()
        self._file.close()


class _Portions(io.BufferedReader):
    """A file of which no more is read at once than an image's small files have.

    The header of a tar may claim that gigabytes of names follow.
    """

    def read(self, size: int | None = -1) -> bytes:
        """Read ``size`` bytes. Raises tarfile.ReadError for more than any header of an archive has."""
        if size is None or not 0 <= size <= PORTION_BYTES_MAX:
            raise tarfile.ReadError("a header of the archive is larger than any")
        return super().read(size)


def _opened(path: Path) -> io.BufferedReader:
    """The archive, unpacked where it is packed."""
    raw = open_regular(path, expected=EXPECTED)
    packed = raw.read(len(MAGIC)) == MAGIC
    raw.seek(0)
    return _Portions(UnpackingStream(raw, str(path), UNPACKING) if packed else raw)


def too_large(name: str, where: str) -> InputError:
    """The error for a file that cannot be what its name says."""
    return InputError(
        "larger than any manifest or configuration",
        field=name,
        where=where,
        expected=f"{MAXIMUM_BYTES} bytes",
    )
