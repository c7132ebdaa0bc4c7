"""Files that are whole or not there: written beside their place, synced, and moved into it.

A reader finds the old file or the new one, never half of either, whatever happens in between: a
crash, a full disk, a cable that is pulled. ``Disk`` is the seam at which tests fail each single step.
No link is followed to the file itself, so that a planted link cannot send our writes elsewhere.
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import Protocol

from gpufleet.files.regular import UnfitFileError, read_regular

# Files of this agent, and those that a container runtime or a container reads.
PRIVATE = 0o600
READABLE = 0o644
FILE_BYTES_MAX = 64 << 20
"""More than any record of ours: the largest holds a line for each container of a node."""


class Disk(Protocol):
    """The steps of which a write is made. Any of them may raise OSError."""

    def read(self, path: Path) -> bytes:
        """All of a file. Raises FileNotFoundError."""
        ...

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """Make a file, or empty the one that is there, and write into it."""
        ...

    def sync(self, path: Path) -> None:
        """Wait until a file, or a folder's list of files, is on the disk."""
        ...

    def move(self, source: Path, target: Path) -> None:
        """Put a file in the place of another one at once."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is no error."""
        ...


class MachineDisk:
    """The files of this machine."""

    def read(self, path: Path) -> bytes:
        """As Disk."""
        try:
            return read_regular(path, FILE_BYTES_MAX, follow_links=False)
        except UnfitFileError as error:
            raise OSError(errno.EINVAL, error.problem, str(path)) from error

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """As Disk."""
        # No link is followed: another process with a right to the folder must not lead the write elsewhere.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
            file.write(data)

    def sync(self, path: Path) -> None:
        """As Disk."""
        # Opened for reading, as only that opens a folder, too.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def move(self, source: Path, target: Path) -> None:
        """As Disk."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """As Disk."""
        path.unlink(missing_ok=True)


DISK: Disk = MachineDisk()


def replace_file(disk: Disk, path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Put these bytes where the file is, all of them or none.

    Raises OSError; the file is then the old one or, where only the last step failed, the new one.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        disk.write(beside, data, mode)
        # Before the move: after a loss of power the name could else lead to an empty file.
        disk.sync(beside)
        disk.move(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(beside)
        raise
    # The folder holds the name; without this a loss of power may take the move back.
    disk.sync(path.parent)
