"""A file of lines that several processes add to, one after the other.

The lock lies on the file itself, so what one process reads and then adds is not mixed with what another adds.
A line that a kill cut off can be dropped, and a disk that fills leaves the file as it was.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gpufleet.files.atomic_write import NEW_FILE_MODE, explained, sync_folder
from gpufleet.files.regular import MEBIBYTE

LINE_END = b"\n"
"""Every whole line ends with it."""


class LockedFile:
    """A file that this process alone adds to."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def size_bytes(self) -> int:
        """How long the file is."""
        return os.fstat(self._descriptor).st_size

    def beginning(self, most_bytes: int) -> bytes:
        """The first bytes, or fewer where the file is shorter."""
        return os.pread(self._descriptor, most_bytes, 0)

    def drop_cut_off_line(self) -> None:
        """Cut the file behind its last whole line."""
        end = size = self.size_bytes()
        while end:
            start = max(0, end - MEBIBYTE)
            found = os.pread(self._descriptor, end - start, start).rfind(LINE_END)
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._descriptor, end)

    def append(self, content: bytes) -> None:
        """Add this at the end, for certain. Raises FileWriteError; the file is then as it was."""
        size = self.size_bytes()
        try:
            left = memoryview(content)
            # The system may take only a part of it at once.
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        # Ctrl-C counts too: no reader may find half of a line.
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            if isinstance(error, OSError):
                raise explained(self.path, error) from error
            raise


@contextlib.contextmanager
def locked_to_append(path: str | os.PathLike[str]) -> Iterator[LockedFile]:
    """The file at this path, made where there is none; waits for another process that adds to it.

    Raises FileWriteError. A file that was made and stays empty is removed.
    """
    target = Path(os.path.realpath(path))
    try:
        descriptor, is_new = _locked(target)
    except OSError as error:
        raise explained(target, error) from error
    try:
        file = LockedFile(target, descriptor)
        yield file
        if is_new:
            sync_folder(target.parent)
    finally:
        # While the lock is held: the process that waits for it then finds the file gone, and opens a new one.
        if is_new and not file.size_bytes():
            target.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(target: Path) -> tuple[int, bool]:
    """The open file with its lock, and whether it was made here."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
    while True:
        is_new = not target.exists()
        descriptor = os.open(target, flags | os.O_CREAT, NEW_FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(target, descriptor):
                return descriptor, is_new
        except BaseException:
            os.close(descriptor)
            raise
        # The process before removed it, or another file took its place.
        os.close(descriptor)


def _is_at(target: Path, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = target.stat()
    except FileNotFoundError:
        return False
    return (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev)
