"""Opens a path that a user names, if a file lies there, and reads no more of it than expected.

The path may lead to a named pipe that has no writer, to a device that never ends or that acts when it is
opened, to a folder, a socket, or a file of the kernel that tells no size. Each of these is refused at once by
its name. Links are followed. Nothing here waits for a second program.
"""

import io
import os
import stat
import sys
from pathlib import Path

from gpufleet.model.model_errors import InputError

MEBIBYTE = 1 << 20
STANDARD_INPUT = "-"
"""The name that stands for standard input on command lines."""

STANDARD_INPUT_NAME = "standard input"
KERNEL_FILE_BYTES_MAX = 4 * MEBIBYTE
"""More than any list of mounts, routes or processes has."""

_CHUNK_BYTES = MEBIBYTE
"""Files of /proc/sys refuse to be read 4 MiB at a time."""

# What a path may lead to instead of a file, in words for the message.
_KINDS = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)
_EXPECTED = "a regular file; what a pipe or a device delivers is written into one first"

AnyPath = str | os.PathLike[str]


class UnfitFileError(InputError):
    """The path leads to no regular file, or to one that is larger than what is expected there."""


def open_regular(
    path: AnyPath, *, field: str = "", expected: str = _EXPECTED, follow_links: bool = True
) -> io.FileIO:
    """The file at this path, open for reading. Raises UnfitFileError, and OSError as ``open`` does."""
    # The check comes first: to open a device may already do something.
    _check_kind(os.stat(path, follow_symlinks=follow_links), path, field, expected)  # noqa: PTH116  may be text
    # A pipe that took the file's place meanwhile is not waited for.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow_links else flags | os.O_NOFOLLOW)
    try:
        _check_kind(os.fstat(descriptor), path, field, expected)
        return io.FileIO(descriptor, "r")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(
    path: AnyPath, most_bytes: int, *, field: str = "", expected: str = _EXPECTED, follow_links: bool = True
) -> bytes:
    """All of a file of at most so many bytes. Raises UnfitFileError, and OSError as ``open`` does."""
    with open_regular(path, field=field, expected=expected, follow_links=follow_links) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise too_large(str(path), most_bytes, field)
        data = read_at_most(file, most_bytes + 1)
        if data is None or (data and not os.fstat(file.fileno()).st_size):
            # A file on a disk knows its size; those of /proc say 0, and some of them never end.
            raise UnfitFileError("is a file of the kernel", field=field, where=str(path), expected=expected)
    if len(data) > most_bytes:
        raise too_large(str(path), most_bytes, field)
    return data


def read_beginning(path: AnyPath, most_bytes: int) -> bytes:
    """The beginning of a file, of whatever length. Raises UnfitFileError, and OSError as ``open`` does."""
    with open_regular(path) as file:
        return read_at_most(file, most_bytes) or b""


def read_standard_input(most_bytes: int, *, field: str = "") -> bytes:
    """All of standard input, up to so many bytes. Raises UnfitFileError."""
    data = sys.stdin.buffer.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise too_large(STANDARD_INPUT_NAME, most_bytes, field)
    return data


def read_kernel_file(path: AnyPath, most_bytes: int = KERNEL_FILE_BYTES_MAX) -> bytes:
    """The beginning of a file of /proc or /sys, as far as so many bytes. Raises OSError.

    For paths that are ours to know, never for one that a user names.
    """
    with Path(path).open("rb", buffering=0) as file:
        return read_at_most(file, most_bytes) or b""


def read_at_most(file: io.RawIOBase, most_bytes: int) -> bytes | None:
    """What comes up to the end or so many bytes; None where nothing would come without waiting."""
    pieces: list[bytes] = []
    left = most_bytes
    while left > 0:
        piece = file.read(min(left, _CHUNK_BYTES))
        if piece is None:
            return None
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def too_large(where: str, most_bytes: int, field: str = "") -> UnfitFileError:
    """The error for a file that is larger than anything that is meant to stand there."""
    return UnfitFileError(
        f"is larger than {size_words(most_bytes)}",
        field=field,
        where=where,
        expected=f"at most {most_bytes} bytes",
    )


def size_words(count: int) -> str:
    """A number of bytes as people say it: "64 MiB"."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count} bytes"


def _check_kind(found: os.stat_result, path: AnyPath, field: str, expected: str) -> None:
    for is_kind, words in _KINDS:
        if is_kind(found.st_mode):
            if expected == _EXPECTED and is_kind is stat.S_ISDIR:
                expected = "a regular file"
            raise UnfitFileError(words, field=field, where=str(path), expected=expected)
