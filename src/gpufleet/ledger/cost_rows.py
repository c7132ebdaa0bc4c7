"""Each part of an hour of a node with its amount: the rows that every answer about costs is a sum of.

They are made node by node and hour by hour and never all held in memory: a year of a fleet has millions.
"""

from collections.abc import Iterator, Mapping

import msgspec

from gpufleet.ledger.bills.billed_hours import BILLED, CORRECTION, WITHOUT_BILL, Division, with_bill
from gpufleet.ledger.hour_records import by_hour
from gpufleet.ledger.interval_log import LedgerPod
from gpufleet.ledger.node_hour import HOUR_US, NO_POD, NodeHour, NodeRecords, account
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span, within
from gpufleet.model.identifiers import PodUid

HOST, HOST_IDLE = "host", "host-idle"
"""Buckets of the part of a node's price that is for CPUs and memory: held by a pod, and by none."""

HOSTS = (HOST, HOST_IDLE)
"""Both of them; their rows have no hours of GPUs."""

UNMATCHED, UNUSED = "unmatched", "commitment-unused"
"""Buckets of what was billed for no node: none was found for it, or nothing used a commitment."""

OTHERS = (UNMATCHED, UNUSED)
"""Both of them."""

PROVISIONAL = "provisional"
"""The state of an amount by a price, until it is billed."""


class CostRow(msgspec.Struct, frozen=True):
    """A part of an hour of a node. ``quantity`` is in thousandths of a GPU times microseconds."""

    hour_us: int
    node: str
    model: str
    device: str
    bucket: str
    reason: str
    pod: LedgerPod | None
    price_id: str
    is_estimated: bool
    quantity: int
    amount_micro: int | None

    @property
    def state(self) -> str:
        """Whether the amount is provisional, billed or a correction; "" without one."""
        if self.amount_micro is None:
            return ""
        return self.price_id if self.price_id in (BILLED, CORRECTION) else PROVISIONAL


def hours_of(
    records: NodeRecords, book: PriceBook, span: Span, division: Division = WITHOUT_BILL
) -> Iterator[NodeHour]:
    """The hours of a node that has GPUs, a price or a bill. Those that the time cuts count in part.

    An hour that a correction changes is followed by the changes.
    """
    there = msgspec.structs.replace(records, span=within(records.span, span))
    has_gpus = bool(records.devices)
    # From the begin of an hour of the clock, because an hour is accounted for as a whole.
    for hour_us, of_hour in by_hour(there):
        hour = account(of_hour, hour_us, book)
        # A node without GPUs and without a price is no business of a ledger of GPUs.
        if has_gpus or hour.gpu_micro or hour.host_micro or (hour.node_uid, hour_us) in division.billed:
            yield from with_bill(hour, division)


def other_rows(division: Division, span: Span) -> Iterator[CostRow]:
    """What was billed in a time and is for no node."""
    for line in division.others:
        if span.covers(line.span.from_us):
            bucket = UNUSED if line.is_unused else UNMATCHED
            hour_us = line.span.from_us // HOUR_US * HOUR_US
            state = CORRECTION if line.is_correction else BILLED
            yield CostRow(hour_us, "", "", "", bucket, line.service, None, state, False, 0, line.amount_micro)


def rows_of(hour: NodeHour, model: str, pods: Mapping[PodUid, LedgerPod]) -> Iterator[CostRow]:
    """The rows of an hour of a node with GPUs of a model."""
    for row in hour.rows:
        key = row.key
        yield CostRow(
            hour.hour_us,
            hour.node,
            model,
            key.device,
            key.bucket,
            key.reason,
            pods.get(key.pod_uid),
            key.price_id,
            key.is_estimated,
            row.quantity,
            row.amount_micro,
        )
    for host in hour.host_rows:
        bucket = HOST_IDLE if host.pod_uid == NO_POD else HOST
        pod = pods.get(host.pod_uid)
        yield CostRow(
            hour.hour_us,
            hour.node,
            model,
            "",
            bucket,
            "",
            pod,
            host.price_id,
            hour.is_sampled,
            0,
            host.amount_micro,
        )
