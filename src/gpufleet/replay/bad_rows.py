"""Keeps the bad rows of one file until it is known whether they may be skipped.

Without leave to skip, up to ten are shown at once, so that a file need not be mended one error at a time.
With a stated share, rows up to it are left out and every one of them is reported. ``trace_table`` and the row
readers above it refuse rows here.
"""

import math

from gpufleet.model.model_errors import InputError
from gpufleet.replay.replay_errors import BadRowsError, TraceError
from gpufleet.replay.results import SkippedRow

MOST_SHOWN = 10
"""Enough to see a pattern, few enough to read."""


class BadRows:
    """The bad rows of one file. ``skip_pct`` is the share of its lines that may be skipped."""

    def __init__(self, file: str, skip_pct: float = 0.0) -> None:
        if not (math.isfinite(skip_pct) and 0 <= skip_pct <= 100):
            raise InputError("not a share", field="skip_bad_rows_pct", value=skip_pct, expected="0 to 100")
        self.file = file
        self.lines_read = 0
        self._skip_pct = skip_pct
        self._bad_lines = 0
        self._problems: list[tuple[int, InputError]] = []

    @property
    def skipping(self) -> bool:
        """True if some rows may be skipped."""
        return self._skip_pct > 0

    def refuse(self, row: int, error: InputError, lines: int = 1) -> None:
        """Notes that ``row`` is bad; a row counts as many times as the lines it runs over.

        Otherwise one stray quote could swallow half a file and count as a single row.
        """
        self._problems.append((row, error))
        self._bad_lines += lines
        if not self.skipping and len(self._problems) >= MOST_SHOWN:
            raise self._error("the first bad rows, there may be more:")

    def finish(self) -> tuple[SkippedRow, ...]:
        """The rows that were skipped; raises if they are more than the share allows."""
        if not self._problems:
            return ()
        # Rows of a bad gang are refused when all others have been read.
        self._problems.sort(key=lambda problem: problem[0])
        share_pct = 100 * self._bad_lines / max(1, self.lines_read)
        if share_pct > self._skip_pct:
            raise self._error(self._summary(share_pct))
        return tuple(SkippedRow(self.file, row, str(error)) for row, error in self._problems)

    def nothing_left(self, expected: str) -> TraceError:
        """The error for a file of which no row remains."""
        problem = "every row is bad" if self._problems else "has a header but no rows"
        return TraceError(problem, file=self.file, expected=expected)

    def _summary(self, share_pct: float) -> str:
        count = len(self._problems)
        what = "1 row is bad" if count == 1 else f"{count:,} rows are bad"
        if self.skipping:
            what += f" ({share_pct:.3g}%), more than the {self._skip_pct:g}% that may be skipped"
        return what + (f"; the first {MOST_SHOWN}:" if count > MOST_SHOWN else ":")

    def _error(self, summary: str) -> TraceError:
        row, first = self._problems[0]
        if len(self._problems) == 1 and not self.skipping:
            return TraceError(
                first.problem,
                file=self.file,
                row=row,
                column=first.field,
                value=first.value,
                expected=first.expected,
            )
        shown = [(row, str(error)) for row, error in self._problems[:MOST_SHOWN]]
        return BadRowsError(summary, file=self.file, column=first.field, shown=shown)
