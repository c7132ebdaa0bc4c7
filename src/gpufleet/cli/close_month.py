"""``gpufleet close-month``: close the accounts of a month; ``ledger.closed_months`` has what that means."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.parameters import LogParameter, LogSource, OutputFolder
from gpufleet.cli.price_options import PRICES, bill_option

if TYPE_CHECKING:
    from gpufleet.ledger.closed_months import ClosedMonth

LOG = LogParameter("a file that `gpufleet ledger` or `gpufleet cost --save` wrote")

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


@click.command(name="close-month")
@click.argument("month")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=LOG)
@click.option(
    "--accounts",
    required=True,
    type=OutputFolder("a folder"),
    help="Where closed months are kept.",
)
@click.option("--prices", multiple=True, type=PRICES, help="As of gpufleet cost; may be given several times.")
@bill_option
@click.option(
    "--correct",
    "corrected",
    metavar="MONTH",
    multiple=True,
    help="A month that is closed: what is known of it now is written into MONTH as a correction.",
)
def command(
    month: str,
    logs: tuple[LogSource, ...],
    accounts: Path,
    prices: tuple[Path, ...],
    bills: tuple[Path, ...],
    corrected: tuple[str, ...],
) -> None:
    """Close the accounts of a MONTH, such as 2026-10: its charges are written and change no more.

    LOGs are of that month, and of the months to correct. `gpufleet cost` answers from closed months.
    """
    from gpufleet.cli.output import echo_line
    from gpufleet.files.atomic_write import make_folder

    checked(month, "MONTH")
    for older in corrected:
        checked(older, "--correct")
    # Before the long work for what is put there.
    make_folder(accounts)
    for line in told(*_closed(month, logs, accounts, prices, bills, corrected)):
        echo_line(line)


def _closed(
    month: str,
    logs: Sequence[LogSource],
    accounts: Path,
    prices: Sequence[Path],
    bills: Sequence[Path],
    corrected: Sequence[str],
) -> "tuple[ClosedMonth, tuple[str, ...]]":
    from gpufleet.cli.cost_bills import billed
    from gpufleet.cli.cost_charges import rows_within
    from gpufleet.cli.cost_input import known, priced
    from gpufleet.cli.cost_output import stamp
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.ledger.closed_months import ClosedMonths
    from gpufleet.ledger.months import begin_us, end_us
    from gpufleet.ledger.spans import Span
    from gpufleet.model.model_errors import InputError

    def span(one: str) -> Span:
        return Span(begin_us(one), end_us(one))

    book, notes = priced(prices)
    needed = begin_us(min([month, *corrected])), end_us(month)
    found = known(logs, None, ClusterChoice(None, ""), needed)
    if found.until_us < end_us(month):
        expected = f"LOGs that reach to its end; these end at {stamp(found.until_us)}"
        raise InputError("is not known whole", field="MONTH", value=month, expected=expected)
    division, of_bill = billed(bills, found.intervals, book, span(month))
    currency = book.currency or division.currency
    if not currency:
        expected = "--prices or --bill, as accounts are of money"
        raise InputError("no amount is known", field="MONTH", value=month, expected=expected)
    again = {older: rows_within(found, book, span(older), division) for older in corrected}
    rows = rows_within(found, book, span(month), division)
    closed = ClosedMonths(accounts).close(month, found.cluster, currency, rows, again)
    return closed, (*notes, *of_bill)


def checked(month: str, field: str) -> None:
    """Raises InputError for what is no month."""
    from gpufleet.model.model_errors import InputError

    if not _MONTH.fullmatch(month):
        raise InputError("no month", field=field, value=month, expected="a month such as 2026-10")


def told(closed: "ClosedMonth", notes: Sequence[str]) -> Iterator[str]:
    """What was closed, for people."""
    from gpufleet.cli.cost_output import exact

    def amount(micro: int) -> str:
        return f"{exact(micro)} {closed.currency}"

    yield f"{closed.month} is closed: {amount(closed.amount_micro)}"
    for one in closed.corrections:
        change = one.after_micro - one.before_micro
        yield (
            f"{one.month} is corrected by {amount(change)}, from {amount(one.before_micro)} to"
            f" {amount(one.after_micro)}, in {one.rows} row{'' if one.rows == 1 else 's'}"
        )
    if closed.provisional_micro:
        yield f"Note: {amount(closed.provisional_micro)} are by prices, as no bill for them was given"
    yield from (f"Note: {note}" for note in notes)
