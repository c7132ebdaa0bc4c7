"""Reads a table strictly: CSV or Parquet, gzipped or not, in any order of columns.

What comes out are rows of text cells in the order the caller named its columns, "" where the
table lacks one; ``trace_nodes`` and ``trace_tasks`` give the cells their meaning. Rows stream:
nothing here grows with the file.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from gpufleet.replay.bad_rows import BadRows
from gpufleet.replay.table_bytes import ByteSource, TableLimits, open_bytes
from gpufleet.replay.table_columns import Column, MatchedColumns, match_columns
from gpufleet.replay.table_csv import CsvRecords


class Table(msgspec.Struct, frozen=True):
    """An open table; its ``rows`` can be walked once.

    A row is the number of the line it begins in, the number of lines it runs over, and its cells. Rows that
    are no rows at all (too many cells) are already in ``bad_rows``.
    """

    file: str
    rows: Iterator[tuple[int, int, tuple[str, ...]]]
    columns: MatchedColumns
    bad_rows: BadRows


class _Records(Protocol):
    """What ``table_csv`` and ``table_parquet`` have in common."""

    header: list[str]
    header_row: int | None

    def records(
        self, names: Sequence[str], bad_rows: BadRows
    ) -> Iterator[tuple[int, int, tuple[str, ...]]]: ...


@contextlib.contextmanager
def open_table(
    path: str | os.PathLike[str],
    columns: Sequence[Column],
    *,
    skip_bad_rows_pct: float = 0.0,
    limits: TableLimits,
) -> Iterator[Table]:
    """Opens the table at ``path`` for the given columns."""
    with open_bytes(path, limits) as source, _open_records(source, limits) as records:
        matched = match_columns(records.header, columns, source.file, records.header_row)
        bad_rows = BadRows(source.file, skip_bad_rows_pct)
        rows = records.records(matched.header_names, bad_rows)
        yield Table(source.file, rows, matched, bad_rows)


@contextlib.contextmanager
def _open_records(source: ByteSource, limits: TableLimits) -> Iterator[_Records]:
    if not source.is_parquet:
        yield CsvRecords(source, limits)
        return
    # pyarrow takes a noticeable while to import, and most traces are CSV.
    from gpufleet.replay.table_parquet import open_parquet

    with open_parquet(source, limits) as records:
        yield records
