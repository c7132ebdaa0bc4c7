"""Hours of nodes with what was billed for them in the place of their prices.

An amount of a line goes to the hours of its nodes within the line's period, by what they cost by the price
book, or by the time they were there where one of them has no price. Within an hour it goes to the rows as the
price would have. So the bill is divided to the last micro-unit, hours that no bill names keep their prices,
which are provisional, and what no node can be found for stays a row of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gpufleet.ledger.bills.bill_lines import Bill, BillLine
from gpufleet.ledger.bills.node_matching import MatchedNode, NodeMatching
from gpufleet.ledger.node_hour import HOUR_US, HostRow, LedgerRow, NodeHour, NodeRecords
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span, end_us, within
from gpufleet.model.money import apportion

BILLED, CORRECTION = "billed", "correction"
"""Stand in the place of a price's id in rows of a bill, and of a later change of one."""

HourKey = tuple[str, int]
"""The uid of a node, and when the hour begins."""


class Division(msgspec.Struct, frozen=True):
    """What was billed for each hour of a node, what corrections change of it, and lines of no node."""

    billed: dict[HourKey, int] = {}
    corrected: dict[HourKey, int] = {}
    others: tuple[BillLine, ...] = ()
    currency: str = ""


WITHOUT_BILL = Division()
"""Where nothing was billed, all amounts are by prices."""


def divide(bill: Bill, nodes: Sequence[NodeRecords], book: PriceBook) -> Division:
    """The bill by hours of nodes; lines for hours in which no node of theirs was seen are the others."""
    # A node without GPUs and without a price is no business of a ledger of GPUs.
    by_uid = {one.node_uid: one for one in nodes if one.devices or book.has_price(one.priced_as)}
    matching = NodeMatching(MatchedNode(uid, one.provider_id) for uid, one in by_uid.items())
    hours = _Hours(by_uid, book)
    sums = {False: defaultdict[HourKey, int](int), True: defaultdict[HourKey, int](int)}
    others = []
    # Lines of one node and period are divided together, so that each does not round on its own.
    together: dict[tuple[tuple[str, ...], Span, bool], list[BillLine]] = defaultdict(list)
    for line in bill.lines:
        uids = () if line.is_unused else matching.nodes_of(line.resource)
        together[uids, line.span, line.is_correction].append(line)
    for (uids, span, is_correction), lines in together.items():
        weights = hours.weights(uids, span)
        if not weights:
            others += lines
            continue
        keys = sorted(weights)
        amounts = apportion(sum(one.amount_micro for one in lines), [weights[key] for key in keys])
        for key, amount in zip(keys, amounts, strict=True):
            sums[is_correction][key] += amount
    return Division(dict(sums[False]), dict(sums[True]), tuple(others), bill.currency)


class _Hours:
    """The hours of nodes, and what each weighs in the division of an amount."""

    def __init__(self, by_uid: dict[str, NodeRecords], book: PriceBook) -> None:
        self._by_uid = by_uid
        self._book = book

    def weights(self, uids: Iterable[str], span: Span) -> dict[HourKey, int]:
        """By price and time; by time alone where one of the hours has a gap or all are free of charge."""
        costs: dict[HourKey, int] = {}
        times: dict[HourKey, int] = {}
        is_priced = True
        for uid in uids:
            records = self._by_uid[uid]
            life = within(records.span, span)
            gpus = max(1, len(records.devices))
            for hour_us in range(life.from_us // HOUR_US * HOUR_US, end_us(life), HOUR_US):
                begin, end = max(hour_us, life.from_us), min(hour_us + HOUR_US, end_us(life))
                times[uid, hour_us] = end - begin
                cost = 0
                for part in self._book.spans(records.priced_as, begin, end):
                    if part.price is None:
                        is_priced = False
                        continue
                    is_of_node = part.price.gpu_micro is not None
                    cost += (
                        part.price.amount_micro * (part.until_us - part.from_us) * (1 if is_of_node else gpus)
                    )
                costs[uid, hour_us] = cost
        return costs if is_priced and any(costs.values()) else times


def with_bill(hour: NodeHour, division: Division) -> Iterator[NodeHour]:
    """The hour as it was billed, or as it was where no bill names it; then what a correction changes."""
    key = hour.node_uid, hour.hour_us
    billed, corrected = division.billed.get(key), division.corrected.get(key)
    yield hour if billed is None else _at(hour, billed, BILLED)
    if corrected is not None:
        changed = _at(hour, corrected, CORRECTION)
        # The GPUs were counted with the bill.
        rows = tuple(msgspec.structs.replace(row, quantity=0) for row in changed.rows)
        yield msgspec.structs.replace(changed, rows=rows)


def _at(hour: NodeHour, amount_micro: int, price_id: str) -> NodeHour:
    """The hour with this amount for GPUs and host together, divided as its prices divide it."""
    weights, amounts = [row.amount_micro for row in hour.rows], [row.amount_micro for row in hour.host_rows]
    known = [one for one in (*weights, *amounts) if one is not None]
    if len(known) == len(weights) + len(amounts) and any(known):
        parts = apportion(amount_micro, known)
    else:
        # Without a price for all of the hour nothing tells what of it is for the host.
        times = [row.quantity for row in hour.rows]
        parts = apportion(amount_micro, times if any(times) else [1] * len(times))
    gpu, host = parts[: len(weights)], parts[len(weights) :]
    rows = tuple(
        LedgerRow(msgspec.structs.replace(row.key, price_id=price_id), row.quantity, part)
        for row, part in zip(hour.rows, gpu, strict=True)
    )
    # An hour that is divided by time has no part for the host: there are fewer amounts than rows.
    hosts = tuple(
        HostRow(row.pod_uid, price_id, part) for row, part in zip(hour.host_rows, host, strict=False)
    )
    return NodeHour(hour.node, hour.node_uid, hour.hour_us, rows, hosts, sum(gpu), sum(host), hour.is_sampled)
