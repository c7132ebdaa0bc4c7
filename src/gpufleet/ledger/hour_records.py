"""The records of a node hour by hour, each hour with those alone that touch it.

Records are looked through once, in the order of their begins: a month has thousands of them a node, and an
hour a handful.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from gpufleet.ledger.buckets import BusySpan, FreeState, Holding
from gpufleet.ledger.node_hour import HOUR_US, HostHolding, NodeRecords
from gpufleet.ledger.spans import Span, end_us

Record = TypeVar("Record")
Spanned = BusySpan | FreeState | Holding | HostHolding


def by_hour(records: NodeRecords) -> Iterator[tuple[int, NodeRecords]]:
    """The hours of the clock that the node's life touches, with their records. The life has an end.

    All devices are in each: that a node had a GPU before or after tells what an hour without one is.
    """
    holdings, busy = _Sweep(records.holdings, _span_of), _Sweep(records.busy, _span_of)
    states, hosts = _Sweep(records.free_states, _span_of), _Sweep(records.host_holdings, _span_of)
    unseen, sampled = (_Sweep(spans, lambda span: span) for spans in (records.unseen, records.sampled))
    for hour_us in range(records.span.from_us // HOUR_US * HOUR_US, end_us(records.span), HOUR_US):
        yield (
            hour_us,
            msgspec.structs.replace(
                records,
                holdings=holdings.touching(hour_us),
                busy=busy.touching(hour_us),
                free_states=states.touching(hour_us),
                host_holdings=hosts.touching(hour_us),
                unseen=unseen.touching(hour_us),
                sampled=sampled.touching(hour_us),
            ),
        )


class _Sweep(Generic[Record]):
    """Records of one kind; hours are asked for in their order."""

    def __init__(self, records: Sequence[Record], span_of: Callable[[Record], Span]) -> None:
        self._ends = [(end_us(span_of(one)), one) for one in records]
        self._ends.sort(key=lambda ended: span_of(ended[1]).from_us)
        self._begins = [span_of(one).from_us for _, one in self._ends]
        self._place = 0
        self._there: list[tuple[int, Record]] = []

    def touching(self, hour_us: int) -> tuple[Record, ...]:
        """Those that touch the hour that begins then."""
        first = self._place
        while self._place < len(self._begins) and self._begins[self._place] < hour_us + HOUR_US:
            self._place += 1
        self._there += self._ends[first : self._place]
        self._there = [ended for ended in self._there if ended[0] > hour_us]
        return tuple(one for _, one in self._there)


def _span_of(one: Spanned) -> Span:
    return one.span
