"""Bills of ``gpufleet cost``: read, divided among hours of nodes, and what is told of what they are for."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpufleet.cli.cost_output import exact
from gpufleet.files.regular import MEBIBYTE, read_regular
from gpufleet.files.unpacking import MAGIC, UnpackingLimits, unpacked
from gpufleet.ledger.bills.bill_lines import Bill
from gpufleet.ledger.bills.billed_hours import WITHOUT_BILL, Division, divide
from gpufleet.ledger.bills.focus_bill import read_bills
from gpufleet.ledger.interval_log import ByNode
from gpufleet.ledger.node_hour import HOUR_US
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError

BILL_BYTES_MAX = 1024 * MEBIBYTE
"""A month of a large account has some hundred MiB."""


def hours_within(span: Span) -> Span:
    """The time without hours that it cuts: a bill is of whole hours."""
    begin_us = -(-span.from_us // HOUR_US) * HOUR_US
    return Span(begin_us, max(begin_us, (span.until_us or 0) // HOUR_US * HOUR_US))


def billed(
    paths: Sequence[Path], intervals: ByNode, book: PriceBook, span: Span
) -> tuple[Division, tuple[str, ...]]:
    """What was billed for each hour, and notes on it. Raises InputError."""
    if not paths:
        return WITHOUT_BILL, ()
    files = ((_content(path), str(path)) for path in paths)
    bill = read_bills(files)
    if book.currency and bill.currency and book.currency != bill.currency:
        expected = f"{book.currency}, as the prices are in"
        raise InputError("a bill in another currency", field="--bill", value=bill.currency, expected=expected)
    division = divide(bill, intervals.without_pods(), book)
    return division, tuple(_notes(bill, division, span))


def _content(path: Path) -> bytes:
    """The bytes of a bill; AWS and Oracle export theirs packed."""
    content = read_regular(path, BILL_BYTES_MAX, field="--bill")
    if not content.startswith(MAGIC):
        return content
    return unpacked(content, str(path), UnpackingLimits(BILL_BYTES_MAX))


def _notes(bill: Bill, division: Division, span: Span) -> Iterator[str]:
    """Where each part of the bill went; the parts add up to it."""
    hours = [*division.billed.items(), *division.corrected.items()]
    of_nodes = sum(amount for (_, hour_us), amount in hours if span.covers(hour_us))
    others = [line for line in division.others if span.covers(line.span.from_us)]
    of_others = sum(line.amount_micro for line in others)
    outside = bill.total_micro - of_nodes - of_others
    nodes = len({uid for (uid, hour_us), _ in hours if span.covers(hour_us)})
    yield (
        f"of the bill of {_amount(bill.total_micro, bill)} {_amount(of_nodes, bill)} are for {nodes}"
        f" node{'' if nodes == 1 else 's'} and {_amount(of_others, bill)} for no node"
    )
    if outside:
        yield f"{_amount(outside, bill)} of the bill are for hours outside of this time"


def _amount(amount_micro: int, bill: Bill) -> str:
    return f"{exact(amount_micro)} {bill.currency}"
