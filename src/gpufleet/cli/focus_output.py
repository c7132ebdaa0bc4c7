"""Writes costs as CSV of FOCUS, with the notes beside it."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpufleet.cli.cost_input import Asked, Known
from gpufleet.cli.cost_question import CostQuestion
from gpufleet.cli.output import echo_data, echo_line
from gpufleet.ledger.bills.billed_hours import Division
from gpufleet.ledger.cluster_reading import RIGHTS
from gpufleet.ledger.focus_rows import FOCUS_12, FOCUS_14, FocusVersion, focus_rows
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError

FOCUS = {"focus": FOCUS_14, "focus-1.2": FOCUS_12}
"""The versions by the name of the form."""


def show_focus(
    known: Known,
    book: PriceBook,
    span: Span,
    version: FocusVersion,
    division: Division,
    notes: Iterable[str],
) -> None:
    """Print the rows. Raises InputError without price and bill, or without the cluster, the account."""
    if not book.prices and not division.currency:
        raise InputError("no prices", field="--prices", expected="a table of them: FOCUS has rows of charges")
    if not known.cluster:
        raise InputError(
            "you may not get the namespace kube-system, whose UID is the billing account",
            field="--output",
            expected=RIGHTS,
        )
    _show(version, focus_rows(known.intervals, book, span, known.cluster, version, division))
    for note in (*notes, *known.notes):
        echo_line(f"note: {note}", err=True)


def show_focus_of_charges(
    paths: Sequence[Path], question: CostQuestion, asked: Asked, version: FocusVersion
) -> None:
    """Print the rows of charges, such as those of closed months. Raises InputError."""
    # DuckDB is loaded for a third of a second, and other answers need none.
    from gpufleet.ledger.charges import Charges
    from gpufleet.ledger.focus_charges import focus_of_charges

    found = Charges(paths)
    if not found.currency:
        expected = "charges that were written with --prices or --bill: FOCUS has rows of money"
        raise InputError("charges without amounts", where=str(paths[0]), expected=expected)
    span = question.span(asked, found.span.until_us or 0, found.span.from_us)
    _show(version, focus_of_charges(paths, span, version))


def _show(version: FocusVersion, rows: Iterable[tuple[str, ...]]) -> None:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(version.columns)
    writer.writerows(rows)
    echo_data(file.getvalue())
