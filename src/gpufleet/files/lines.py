"""A file line by line, packed or not, with a bound for each line and for all of them."""

import io
from collections.abc import Iterator
from typing import Self

import msgspec

from gpufleet.files.regular import MEBIBYTE, AnyPath, UnfitFileError, open_regular, size_words
from gpufleet.files.unpacking import MAGIC, UnpackingLimits, UnpackingStream

# Lines are short: one read serves hundreds of them.
_BUFFER_BYTES = 64 * 1024


class LineLimits(msgspec.Struct, frozen=True):
    """How long a file of lines may be."""

    line_bytes: int = 256 * MEBIBYTE
    """Bytes of one line: several times the longest, the step that takes in a whole fleet at once."""

    total_bytes: int = 64 * 1024 * MEBIBYTE
    """All of it, unpacked: more than a machine has the patience to decide again."""

    inflation: int = 500
    grace_bytes: int = 16 * MEBIBYTE


class BoundedLines:
    """The lines of a file, each with its end. ``name`` is for messages."""

    def __init__(self, path: AnyPath, limits: LineLimits | None = None, *, expected: str) -> None:
        """Raises UnfitFileError for what is no file, and OSError as ``open`` does."""
        limits = limits or LineLimits()
        self.name = str(path)
        self._limits = limits
        raw = open_regular(path, expected=expected)
        packed = raw.read(len(MAGIC)) == MAGIC
        raw.seek(0)
        within = UnpackingLimits(limits.total_bytes, limits.inflation, limits.grace_bytes)
        stream = UnpackingStream(raw, self.name, within) if packed else raw
        self._file = io.BufferedReader(stream, _BUFFER_BYTES)
        self._seen = 0

    def readline(self) -> bytes:
        """The next line; empty at the end. Raises UnfitFileError and GzipError."""
        limits = self._limits
        line = self._file.readline(limits.line_bytes + 1)
        self._seen += len(line)
        if len(line) > limits.line_bytes:
            raise self._too_long("has a line longer than", limits.line_bytes)
        if self._seen > limits.total_bytes:
            raise self._too_long("is longer than", limits.total_bytes)
        return line

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _too_long(self, words: str, most: int) -> UnfitFileError:
        return UnfitFileError(
            f"{words} {size_words(most)}", where=self.name, expected=f"at most {most} bytes"
        )
