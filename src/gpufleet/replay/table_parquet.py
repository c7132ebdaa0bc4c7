"""Reads the records of a Parquet file, a batch at a time, as the text cells that CSV would give.

One set of rules then serves both kinds of file. Numbers and text are accepted (a whole number may be stored
as a float, as pandas does for columns with gaps); null is an empty cell; dates, booleans and nested columns
are refused, since they have no one reading as seconds or amounts.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpufleet.replay.bad_rows import BadRows
from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.table_bytes import ByteSource, TableLimits, seekable

BATCH_ROWS = 16_384
"""Bounds the rows in memory, whatever the size of the file's row groups."""

LONGEST_UTF8_BYTES = 4
"""A character takes up to four bytes, so a cell within this bound may still be short enough."""

LARGEST_EXACT_FLOAT = 2.0**53
"""Above it a float skips whole numbers, so the cell is not the number that was meant."""


class ParquetRecords:
    """The header and the records of an open Parquet file."""

    header_row: int | None = None

    def __init__(self, file: str, parquet: Any, limits: TableLimits) -> None:
        self._file = file
        self._parquet = parquet
        self._limits = limits
        with _parquet_errors(file):
            self._schema = parquet.schema_arrow
            self.header: list[str] = list(self._schema.names)
            self._check_size(parquet.metadata)

    def _check_size(self, metadata: Any) -> None:
        limits = self._limits
        unpacked = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
        for what, amount, most in (
            ("rows", metadata.num_rows, limits.rows),
            ("columns", len(self.header), limits.columns),
            ("bytes, unpacked", unpacked, limits.total_bytes),
        ):
            if amount > most:
                raise TraceError(f"has more than {most:,} {what}", file=self._file)

    def records(self, names: Sequence[str], bad_rows: BadRows) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Row number, 1, and the cells of the columns ``names`` ("" for no column)."""
        present = [name for name in names if name]
        for name in present:
            self._check_type(name)
        row = 0
        with _parquet_errors(self._file):
            for batch in self._parquet.iter_batches(BATCH_ROWS, columns=present, use_threads=False):
                absent = [""] * batch.num_rows
                columns = [self._cells(name, batch.column(name)) if name else absent for name in names]
                for cells in zip(*columns, strict=True):
                    row += 1
                    bad_rows.lines_read += 1
                    yield row, 1, cells

    def _check_type(self, name: str) -> None:
        kind = self._schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not (
            _is_text(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_null(kind)
        ):
            raise TraceError(
                f"the column holds {kind}", file=self._file, column=name, expected="numbers or text"
            )

    def _cells(self, name: str, column: Any) -> list[str]:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type):
            return [""] * len(column)
        if pa.types.is_floating(column.type):
            return ["" if value is None else _float_text(value) for value in column.to_pylist()]
        is_text, column = _is_text(column.type), column.cast(pa.string())
        if is_text:
            self._check_lengths(name, column)
        values: list[str] = pc.fill_null(column, "").to_pylist()
        return values

    def _check_lengths(self, name: str, column: Any) -> None:
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        if longest > LONGEST_UTF8_BYTES * self._limits.cell_characters:
            raise TraceError(
                f"a cell is longer than {self._limits.cell_characters:,} characters",
                file=self._file,
                column=name,
            )


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _float_text(value: float) -> str:
    if value.is_integer() and abs(value) <= LARGEST_EXACT_FLOAT:
        return str(int(value))
    # The shortest text that is read as this very number again.
    return repr(value)


@contextlib.contextmanager
def open_parquet(source: ByteSource, limits: TableLimits) -> Iterator[ParquetRecords]:
    """The records of a source that begins like a Parquet file."""
    with seekable(source) as stream:
        with _parquet_errors(source.file):
            parquet = pq.ParquetFile(stream)
        yield ParquetRecords(source.file, parquet, limits)


@contextlib.contextmanager
def _parquet_errors(file: str) -> Iterator[None]:
    """pyarrow tells of damage in many ways: its own errors, OSError, bad text, sizes out of reach."""
    try:
        yield
    except TraceError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(
            f"the Parquet file is damaged ({first_line[:200]})",
            file=file,
            expected="the whole file",
        ) from error
