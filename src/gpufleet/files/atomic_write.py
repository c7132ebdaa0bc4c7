"""Writes a file beside its place and renames it in when it is complete.

A file is then either the old one or the whole new one: a full disk or a Ctrl-C in the middle leaves nothing
half-written behind. Every command that writes a file which its user names writes it through this;
``tests/conventions/test_writing.py`` holds that. A log that grows while a program runs is
``growing_file``; a file that several processes add to is ``locked_file``.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from gpufleet.files.files_errors import FileWriteError, shown_path
from gpufleet.model.model_errors import InputError

NEW_FILE_MODE = 0o666
"""The mode with which ``open`` makes files; the umask takes rights away."""

PRIVATE_MODE = 0o600
"""Only the owner reads or writes it."""

# Errors of a disk, a quota and a file system that are full.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK_ERRORS = NO_ROOM | {errno.EIO, errno.EROFS, errno.ESTALE}


def check_target(path: str | os.PathLike[str], field: str = "") -> None:
    """Find out whether a file could be written there, before the long work for its content.

    Raises InputError where no file can be, and FileWriteError where this user may write none.
    """
    target = Path(os.path.realpath(path))
    try:
        _check_target(target, field)
        if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise explained(target, error) from error


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, is_private: bool = False) -> Iterator[TextIO]:
    """A text file (UTF-8, line ends as written) that takes its place when the block ends well.

    With ``is_private`` only its owner may read it from the first byte, whatever stood there before: rights of
    an older file are not kept, and a link is replaced, not followed.
    """
    target = Path(path).absolute() if is_private else Path(os.path.realpath(path))
    try:
        _check_target(target)
    except InputError as error:
        # The command has checked its options before: by now it is the disk that has changed.
        raise FileWriteError(str(error)) from error
    except OSError as error:
        raise explained(target, error) from error
    # The name is cut, or what is added to it could make it longer than a file system allows.
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        file = _create(beside, target, is_private=is_private)
        try:
            with file:
                yield file
                file.flush()
                # Before the rename: after a crash the name must not lead to content that never reached the
                # disk.
                os.fsync(file.fileno())
            beside.replace(target)
        except OSError as error:
            # The block may fail for reasons of its own; only what a disk says is ours to explain.
            if error.errno in DISK_ERRORS:
                raise explained(target, error) from error
            raise
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(target.parent)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file of this content, complete or not at all. Raises FileWriteError."""
    with atomic_write(path) as file:
        file.buffer.write(content)


@contextlib.contextmanager
def growing_file(path: str | os.PathLike[str]) -> Iterator[Callable[[bytes], None]]:
    """A new file that grows while the block runs, and a function that appends to it.

    Raises FileWriteError when it cannot be opened, written or closed; what was appended before then stays.
    """
    target = Path(os.path.realpath(path))
    try:
        _check_target(target)
        file = target.open("wb")
    except InputError as error:
        raise FileWriteError(str(error)) from error
    except OSError as error:
        raise explained(target, error) from error

    def append(content: bytes) -> None:
        try:
            file.write(content)
        except OSError as error:
            raise explained(target, error) from error

    try:
        yield append
    finally:
        try:
            file.close()
        except OSError as error:
            raise explained(target, error) from error


def make_folder(folder: Path) -> None:
    """Make a folder for files, and those above it, unless it is there. Raises FileWriteError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileWriteError(
            f"{shown_path(folder)}: this folder cannot be made ({error.strerror}); name another"
        ) from error


def _check_target(target: Path, field: str = "") -> None:
    if not target.parent.is_dir():
        problem = f"there is no folder {shown_path(target.parent)}"
        expected = "a file in a folder that is there: create it or write elsewhere"
    elif target.is_dir():
        problem, expected = "is a folder", "a file: name one inside it"
    elif target.exists() and not target.is_file():
        problem, expected = "is no regular file and cannot be replaced", "a file: write elsewhere"
    else:
        return
    raise InputError(problem, where=shown_path(target), field=field, expected=expected)


def _create(beside: Path, target: Path, *, is_private: bool) -> TextIO:
    mode = PRIVATE_MODE if is_private else NEW_FILE_MODE
    try:
        # Never through a link, and never into a file that lies there already.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise explained(target, error) from error
    if is_private:
        return os.fdopen(descriptor, "w", encoding="utf-8", newline="")
    with contextlib.suppress(OSError):
        # A file that is replaced keeps its permissions, and its owner where this user may give it away.
        before = target.stat()
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        os.fchown(descriptor, before.st_uid, before.st_gid)
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="")


def explained(target: Path, error: OSError) -> FileWriteError:
    """What went wrong with a file, and the way out."""
    shown, folder = shown_path(target), shown_path(target.parent)
    if error.errno in NO_ROOM:
        return FileWriteError(f"{shown}: no room left on the disk; free some space or write elsewhere")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return FileWriteError(
            f"{shown}: this user may not write in {folder}; change its permissions or write elsewhere"
        )
    return FileWriteError(f"{shown}: could not be written ({error.strerror}); try again or elsewhere")


def sync_folder(folder: Path) -> None:
    """Makes the rename last; not every file system can, and the file itself is safe already."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
