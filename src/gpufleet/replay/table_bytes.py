"""Opens a table file as a bounded stream of bytes: plain or gzip, text or Parquet.

The content decides what a file is, never its name: browsers unpack ``.gz`` on the way and
people rename exports. A file from outside may also be a trap, so every stream is metered: one
small gzip can unfold into terabytes. ``table_csv`` and ``table_parquet`` read what is opened here.
"""

import contextlib
import difflib
import gzip
import io
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

import msgspec

from gpufleet.files.files_errors import shown_path
from gpufleet.files.regular import UnfitFileError, open_regular
from gpufleet.replay.replay_errors import FileReadError, TraceError

# Limits are told in MiB.
MEBIBYTE = 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC = b"PAR1"
# So much is unpacked before the limits are looked at again.
READ_BYTES = 64 * 1024
SPOOLED_IN_MEMORY_BYTES = 16 * MEBIBYTE
"""A smaller table is unpacked without touching the disk."""


class TableLimits(msgspec.Struct, frozen=True):
    """How large a table may be, far above any real trace and far below what hurts a machine."""

    row_bytes: int = MEBIBYTE
    """One row, with the lines a quoted cell runs over."""
    cell_characters: int = 65_536
    total_bytes: int = 16 * 1024 * MEBIBYTE
    """The whole table, unpacked."""
    inflation: int = 300
    """Unpacked bytes per packed byte. Distinct names keep real traces far below; bombs reach 1000."""
    inflation_grace_bytes: int = MEBIBYTE
    """Small files may be as regular as they like."""
    rows: int = 20_000_000
    columns: int = 1_000


class Meter:
    """Stops a stream that unfolds into more than the limits allow."""

    def __init__(self, file: str, limits: TableLimits, packed: "_CountedReader | None") -> None:
        self._file = file
        self._limits = limits
        self._packed = packed

    def check(self, unpacked_bytes: int) -> int:
        """Raises if too much has come out so far; returns the count at which to ask again."""
        limits = self._limits
        if unpacked_bytes > limits.total_bytes:
            raise TraceError(
                f"the table is larger than {limits.total_bytes:,} bytes",
                file=self._file,
                expected="a smaller table, or one cut into parts",
            )
        if self._packed is not None and unpacked_bytes > limits.inflation_grace_bytes:
            packed_bytes = max(1, self._packed.bytes_read)
            if unpacked_bytes > limits.inflation * packed_bytes:
                raise TraceError(
                    f"the gzip unfolds to more than {limits.inflation} times its size "
                    f"({packed_bytes:,} bytes gave {unpacked_bytes:,})",
                    file=self._file,
                    expected="a gzip of a table; if it is one, unpack it first",
                )
        return unpacked_bytes + READ_BYTES


class ByteSource(msgspec.Struct, frozen=True):
    """An open table: its name for messages, its unpacked bytes and the meter over them."""

    file: str
    stream: io.BufferedIOBase
    is_parquet: bool
    meter: Meter


class _CountedReader(io.RawIOBase):
    """Passes a file through and counts what was read of it."""

    def __init__(self, packed: "io.BufferedReader[io.FileIO]") -> None:
        self._packed = packed
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        count = self._packed.readinto(buffer)
        self.bytes_read += count
        return count


@contextlib.contextmanager
def open_bytes(path: str | os.PathLike[str], limits: TableLimits) -> Iterator[ByteSource]:
    """Opens ``path`` for reading, unpacked if it is a gzip."""
    file = shown_path(path)
    with _open_raw(path, file) as raw:
        plain = io.BufferedReader(raw, READ_BYTES)
        with read_errors(file):
            first = plain.peek(2)[:2]
        if first and not os.fstat(raw.fileno()).st_size:
            # A file on a disk knows its size; those of /proc say 0, and some of them never end.
            raise TraceError("is a file of the kernel", file=file, expected="a CSV or Parquet file")
        is_gzip = first == GZIP_MAGIC
        if is_gzip:
            with _open_gzip(plain, file, limits) as source:
                yield source
        else:
            yield ByteSource(file, plain, _is_parquet(plain), Meter(file, limits, None))


@contextlib.contextmanager
def _open_gzip(plain: "io.BufferedReader[io.FileIO]", file: str, limits: TableLimits) -> Iterator[ByteSource]:
    packed = _CountedReader(plain)
    with gzip.GzipFile(fileobj=packed) as unpacked:
        with read_errors(file):
            is_parquet = _is_parquet(unpacked)
        yield ByteSource(file, unpacked, is_parquet, Meter(file, limits, packed))


def _is_parquet(stream: "io.BufferedReader[io.FileIO] | gzip.GzipFile") -> bool:
    return bool(stream.peek(4)[:4] == PARQUET_MAGIC)


def _open_raw(path: str | os.PathLike[str], file: str) -> io.FileIO:
    try:
        return open_regular(path)
    except UnfitFileError as error:
        expected = "a CSV or Parquet file; what a pipe delivers is written into one first"
        raise TraceError(error.problem, file=file, expected=expected) from error
    except FileNotFoundError as error:
        raise TraceError("there is no such file", file=file, expected=_nearest(path)) from error
    except PermissionError as error:
        raise TraceError("may not be read by this user", file=file, expected="a readable file") from error
    except (OSError, ValueError) as error:
        # ValueError: a NUL in the path.
        raise TraceError(f"cannot be opened ({error})", file=file) from error


def _nearest(path: str | os.PathLike[str]) -> str:
    wanted = Path(path)
    try:
        neighbours = sorted(entry.name for entry in wanted.parent.iterdir())
    except OSError:
        return f"a file; the folder {shown_path(wanted.parent)} is not there either"
    nearest = difflib.get_close_matches(wanted.name, neighbours, n=1)
    return f"perhaps {shown_path(nearest[0])}" if nearest else "the path of a CSV or Parquet file"


@contextlib.contextmanager
def read_errors(file: str) -> Iterator[None]:
    """Names the file in whatever gzip or the disk say while it is read."""
    try:
        yield
    except EOFError as error:
        raise TraceError("the gzip ends too early", file=file, expected="the whole file") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"the gzip is damaged ({error})", file=file) from error
    except OSError as error:
        raise FileReadError(f"{file}: reading failed ({error}); try again") from error


@contextlib.contextmanager
def seekable(source: ByteSource) -> Iterator[object]:
    """The source's bytes with random access, by way of a temporary file if need be."""
    if not isinstance(source.stream, gzip.GzipFile) and source.stream.seekable():
        yield source.stream
        return
    with tempfile.SpooledTemporaryFile(max_size=SPOOLED_IN_MEMORY_BYTES) as copy:
        total = 0
        with read_errors(source.file):
            while chunk := source.stream.read(READ_BYTES):
                total += len(chunk)
                source.meter.check(total)
                _spool(copy, chunk, source.file)
        copy.seek(0)
        yield copy


def _spool(copy: IO[bytes], chunk: bytes, file: str) -> None:
    try:
        copy.write(chunk)
    except OSError as error:
        raise FileReadError(
            f"{file}: no room to unpack it in {tempfile.gettempdir()} ({error}); "
            "free some space there, set TMPDIR, or unpack the file yourself"
        ) from error
