"""Writes costs as CSV of FOCUS, with the notes beside it."""

import csv
import io
from collections.abc import Iterable

from gpufleet.cli.cost_input import Known
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
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(version.columns)
    writer.writerows(focus_rows(known.intervals, book, span, known.cluster, version, division))
    echo_data(file.getvalue())
    for note in (*notes, *known.notes):
        echo_line(f"note: {note}", err=True)
