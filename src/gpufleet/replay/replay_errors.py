"""What can go wrong with the files of a replay.

InputError
  TraceError          a node list or task list is bad: which file, row and column
    BadRowsError      several rows of one file are bad, shown together
WorldError
  FileReadError       the disk failed while a file was read
  ShippedTraceError   the trace that comes with gpufleet is not where it should be
"""

from collections.abc import Sequence

from gpufleet.model.model_errors import InputError, WorldError


class TraceError(InputError):
    """A node list or task list is bad.

    ``row`` is the line as an editor counts it (the header is line 1); of a Parquet file, which
    has no lines, the first row is 1. None where the whole file is meant.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str,
        row: int | None = None,
        column: str = "",
        value: object = None,
        expected: str = "",
    ) -> None:
        self.file = file
        self.row = row
        self.column = column
        where = file if row is None else f"{file}, row {row}"
        super().__init__(problem, field=column, value=value, expected=expected, where=where)

    def __reduce__(self) -> tuple[object, ...]:
        """How it travels from a worker process: as it is, not made again from its sentence."""
        return (rebuilt, (type(self), self.args, self.__dict__))


class BadRowsError(TraceError):
    """Several bad rows of one file; ``row`` and ``column`` are those of the first.

    ``shown`` holds (row, problem) of the rows that the message lists.
    """

    def __init__(self, summary: str, *, file: str, column: str, shown: Sequence[tuple[int, str]]) -> None:
        self.shown = tuple(shown)
        listing = "".join(f"\n  row {row}, {problem}" for row, problem in shown)
        super().__init__(summary + listing, file=file)
        self.row = shown[0][0]
        self.column = column


class FileReadError(WorldError):
    """The disk or network share failed in the middle of a file."""


class ShippedTraceError(WorldError):
    """The trace that comes with gpufleet is missing: the installation is not complete."""


def rebuilt(kind: type[TraceError], args: tuple[object, ...], fields: dict[str, object]) -> TraceError:
    """The error that was taken apart in another process."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error
