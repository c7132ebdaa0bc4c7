"""Reads the records of a CSV file, one at a time and strictly.

UTF-8 with or without a byte order mark, lines that end in LF or CRLF, blank lines ignored. What is not CSV by
the letter stops the reading, because after a stray quote the start of the next row is not known.
``trace_table`` picks this or ``table_parquet`` by the file's content.
"""

import csv
from collections.abc import Iterator, Sequence
from operator import itemgetter

from gpufleet.model.model_errors import InputError
from gpufleet.replay.bad_rows import BadRows
from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.table_bytes import ByteSource, TableLimits, read_errors

# Spreadsheets put it at the beginning of a file.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TEXT = "text in UTF-8 (not UTF-16), or a Parquet file"
VALID_CSV = 'cells separated by commas; in double quotes if they hold a comma, "" for a quote'


class CsvRecords:
    """The header and the records of an open CSV file."""

    header_row: int | None = 1

    def __init__(self, source: ByteSource, limits: TableLimits) -> None:
        self._file = source.file
        self._limits = limits
        self._lines = _Lines(source, limits)
        self._reader = csv.reader(iter(self._lines), strict=True)
        self.header = self._read_header()

    def _read_header(self) -> list[str]:
        try:
            header = next((cells for cells in self._reader if cells), None)
        except csv.Error as error:
            raise self._not_csv(1, error) from error
        self.header_row = max(1, self._reader.line_num)
        if header is None:
            raise TraceError("is empty", file=self._file, expected="a header and rows")
        if len(header) > self._limits.columns:
            raise TraceError(f"has more than {self._limits.columns:,} columns", file=self._file, row=1)
        self._lines.record_bytes = 0
        return header

    def records(self, names: Sequence[str], bad_rows: BadRows) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Row number, number of lines, and the cells of the columns ``names`` ("" for no column)."""
        width = len(self.header)
        # One empty cell is put behind every record, for the columns that this table lacks.
        pick = itemgetter(*(self.header.index(name) if name else width for name in names))
        lines, reader, limits = self._lines, self._reader, self._limits
        last = reader.line_num
        try:
            for cells in reader:
                row, last = last + 1, reader.line_num
                if last > limits.rows:
                    raise TraceError(f"has more than {limits.rows:,} rows", file=self._file)
                # No cell has more characters than its row has bytes, so the cells of short rows need no look.
                if lines.record_bytes > limits.cell_characters:
                    self._check_cells(row, cells)
                lines.record_bytes = 0
                if not cells:
                    continue
                bad_rows.lines_read += last - row + 1
                if len(cells) != width:
                    bad_rows.refuse(row, _wrong_width(cells, width), last - row + 1)
                    continue
                cells.append("")
                yield row, last - row + 1, pick(cells)
        except csv.Error as error:
            raise self._not_csv(last + 1, error) from error

    def _check_cells(self, row: int, cells: Sequence[str]) -> None:
        if any(len(cell) > self._limits.cell_characters for cell in cells):
            raise self._cell_too_long(row)

    def _cell_too_long(self, row: int) -> TraceError:
        return TraceError(
            f"a cell is longer than {self._limits.cell_characters:,} characters",
            file=self._file,
            row=row,
            expected="short cells; a quote that is never closed makes long ones",
        )

    def _not_csv(self, row: int, error: csv.Error) -> TraceError:
        lines = self._lines
        if "\r" in lines.text.rstrip("\r\n"):
            problem, expected = "a carriage return inside the line", "lines that end in LF or CRLF"
        elif lines.record_bytes > self._limits.cell_characters:
            return self._cell_too_long(row)
        elif lines.ended:
            problem, expected = "a quoted cell never ends", VALID_CSV
        else:
            problem, expected = f"not valid CSV ({error})", VALID_CSV
        return TraceError(problem, file=self._file, row=row, expected=expected)


def _wrong_width(cells: Sequence[str], width: int) -> InputError:
    hint = ""
    if len(cells) > width:
        hint = "; decimals are written with a point, and text with a comma in double quotes"
    counted = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return InputError(f"has {counted}", expected=f"{width}, as in the header{hint}")


class _Lines:
    """The lines of a file as text, each and all of them bounded."""

    def __init__(self, source: ByteSource, limits: TableLimits) -> None:
        self._source = source
        self._limits = limits
        self._number = 0
        self.text = ""
        self.record_bytes = 0
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        source, most = self._source, self._limits.row_bytes
        total, check_at = 0, 0
        with read_errors(source.file):
            # One byte more than is allowed tells a line that is too long from one that just fits.
            while line := source.stream.readline(most + 1):
                self._number += 1
                if self._number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                total += len(line)
                self.record_bytes += len(line)
                if self.record_bytes > most:
                    raise self._bad_line(f"a row is longer than {most:,} bytes", "short rows")
                if total >= check_at:
                    check_at = source.meter.check(total)
                if b"\0" in line:
                    raise self._bad_line("a NUL byte", TEXT)
                self.text = self._decoded(line)
                yield self.text
        self.ended = True

    def _decoded(self, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            problem = f"byte {line[error.start]:#04x} is not UTF-8"
            raise self._bad_line(problem, TEXT) from error

    def _bad_line(self, problem: str, expected: str) -> TraceError:
        return TraceError(problem, file=self._source.file, row=self._number, expected=expected)
