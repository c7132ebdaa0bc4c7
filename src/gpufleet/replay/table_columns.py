"""Which columns of a table are meant, and what to say about those that are not.

Order is free. A missing column, a column twice, and a name that is nearly a known one are
errors: a misspelt column that is quietly left out gives a wrong result instead of a message.
Any other unknown column is left out with a note. ``trace_table`` reads the rows with the result.
"""

import difflib
from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.model.model_errors import printable
from gpufleet.replay.replay_errors import TraceError

NEAR_MISS_RATIO = 0.8
"""About one wrong letter in five, by ``difflib``: the column was probably misspelt."""

# A screen shows them; a table of another kind has hundreds.
SHOWN_UNKNOWN_COLUMNS = 20


class Column(msgspec.Struct, frozen=True):
    """A column that a table may have; ``unused`` ones are known but say nothing we need."""

    name: str
    alias: str = ""
    required: bool = False
    unused: bool = False


class MatchedColumns(msgspec.Struct, frozen=True):
    """The header's own name of each used column ("" where the table lacks it), and notes for people.

    ``present`` has the used columns that are there, by their first name.
    """

    header_names: tuple[str, ...]
    present: frozenset[str]
    notes: tuple[str, ...]


def match_columns(
    header: Sequence[str], columns: Sequence[Column], file: str, row: int | None
) -> MatchedColumns:
    """Finds ``columns`` in the header that stands in ``row``."""
    found = {column.name: _find(column, header, file, row) for column in columns}
    known = {name for column in columns for name in (column.name, column.alias) if name}
    unknown = [name for name in header if name not in known]
    absent = [column.name for column in columns if not found[column.name]]
    for name in unknown:
        _refuse_near_miss(name, absent, file, row)
    missing = [column.name for column in columns if column.required and not found[column.name]]
    if missing:
        raise _missing(missing, header, columns, file, row)
    used = {column.name: found[column.name] for column in columns if not column.unused}
    present = frozenset(name for name, header_name in used.items() if header_name)
    return MatchedColumns(tuple(used.values()), present, tuple(_notes(unknown, file)))


def _find(column: Column, header: Sequence[str], file: str, row: int | None) -> str:
    names = [name for name in header if name in (column.name, column.alias) and name]
    if len(names) > 1:
        raise TraceError(
            "the column is there twice" if names[0] == names[1] else f"{names[0]} is {names[1]}",
            file=file,
            row=row,
            column=names[1],
            expected="one of them",
        )
    return names[0] if names else ""


def _refuse_near_miss(name: str, absent: Sequence[str], file: str, row: int | None) -> None:
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(plain, absent, n=1, cutoff=NEAR_MISS_RATIO)
    if near:
        raise TraceError(
            "unknown column, nearly a known one",
            file=file,
            row=row,
            column=near[0],
            value=name,
            expected=f"{near[0]}, or another name if that is not meant",
        )


def _missing(
    missing: Sequence[str],
    header: Sequence[str],
    columns: Sequence[Column],
    file: str,
    row: int | None,
) -> TraceError:
    required = ",".join(column.name for column in columns if column.required)
    what = "column" if len(missing) == 1 else "columns"
    problem = f"{what} missing: {', '.join(missing)}"
    expected = f"a header with {required}"
    if any(name.isdigit() for name in header):
        problem = f"the first row is data, not a header; {problem}"
    elif len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        problem = f"the cells are not separated by commas; {problem}"
    return TraceError(
        problem, file=file, row=row, column=missing[0], value=",".join(header), expected=expected
    )


def _notes(unknown: Sequence[str], file: str) -> Iterable[str]:
    for name in unknown[:SHOWN_UNKNOWN_COLUMNS]:
        yield f"{file}: column {printable(name)} is not known and was left out"
    if len(unknown) > SHOWN_UNKNOWN_COLUMNS:
        yield f"{file}: {len(unknown) - SHOWN_UNKNOWN_COLUMNS} more unknown columns were left out"
