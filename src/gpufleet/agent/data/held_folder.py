"""A folder that is held open, in which no link is ever followed.

Pods write into caches and stores as well, some of them as root. A path that was checked may lead elsewhere a
moment later, so each step from folder to folder starts at one that is open, and a link in between is refused.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from gpufleet.agent.data.staging_errors import NotCopiedError

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_MODE, FILE_MODE = 0o755, 0o644
"""What is staged may be read by every pod that mounts the cache, and written by none but root."""


class HeldFolder:
    """An open folder. Raises OSError as the calls of the system do."""

    def __init__(self, descriptor: int, place: str) -> None:
        self.descriptor = descriptor
        self.place = place
        """Its path in words, for messages alone."""

    @classmethod
    def at(cls, path: Path) -> Self:
        """A folder that a setting names: links on the way to it are the platform's own."""
        return cls(os.open(path, _FOLDER_FLAGS), str(path))

    def __enter__(self) -> Self:
        """Hold it for a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        os.close(self.descriptor)

    def folder(self, name: str) -> "HeldFolder":
        """A folder in it."""
        descriptor = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=self.descriptor)
        return HeldFolder(descriptor, f"{self.place}/{name}")

    def made(self, name: str) -> "HeldFolder":
        """A folder in it, made if it is not there."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=self.descriptor)
        return self.folder(name)

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """What is in it, in the order of names."""
        with os.scandir(self.descriptor) as inside:
            yield from sorted(inside, key=lambda one: one.name)

    def state(self, name: str) -> os.stat_result | None:
        """What lies under a name; None for nothing."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def reading(self, name: str) -> int:
        """A descriptor of a regular file. Raises NotCopiedError for anything else."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(name, flags, dir_fd=self.descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotCopiedError(f"{self.place}/{name} is no regular file")
        return descriptor

    def new_file(self, name: str) -> int:
        """A descriptor of a file that was not there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, FILE_MODE, dir_fd=self.descriptor)

    def continued_file(self, name: str) -> int:
        """A descriptor of a file that an earlier try may have begun. Raises NotCopiedError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, FILE_MODE, dir_fd=self.descriptor)
        state = os.fstat(descriptor)
        # Another name of a file leads to what may lie anywhere else on this file system.
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
            os.close(descriptor)
            raise NotCopiedError(f"{self.place}/{name} is no regular file of its own")
        return descriptor

    def target(self, name: str) -> str:
        """The text of a link."""
        return os.readlink(name, dir_fd=self.descriptor)

    def new_link(self, name: str, target: str) -> None:
        """A link that was not there."""
        os.symlink(target, name, dir_fd=self.descriptor)

    def move(self, name: str, into: "HeldFolder", new_name: str) -> None:
        """Rename something into a folder, over a file of that name."""
        os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=into.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, a link or a whole folder; nothing is fine."""
        found = self.state(name)
        if found is None:
            return
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=self.descriptor)
            return
        with self.folder(name) as inside:
            for one in inside.entries():
                inside.remove(one.name)
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Make what was renamed here last over a loss of power."""
        os.fsync(self.descriptor)
