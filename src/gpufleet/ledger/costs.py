"""What a time of a fleet cost, put together by queue, namespace, owner, bucket and more.

Rows of hours are only added up, so every way of putting them together has one sum: what the nodes cost in
that time. Hours without a price have hours of GPUs and no amount.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from gpufleet.ledger.bills.billed_hours import WITHOUT_BILL, Division
from gpufleet.ledger.buckets import Bucket
from gpufleet.ledger.cost_rows import HOST_IDLE, HOSTS, OTHERS, UNUSED, CostRow, hours_of, other_rows, rows_of
from gpufleet.ledger.interval_log import ByNode, LedgerPod
from gpufleet.ledger.node_hour import NO_DEVICE, UNSEEN
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.progress.collection_pause import without_collections

WASTE = frozenset(
    {
        Bucket.IDLE_HELD,
        Bucket.WAITING,
        Bucket.STARTING,
        Bucket.LOADING,
        Bucket.ENDING,
        Bucket.IDLE_FREE,
        Bucket.STRANDED,
        Bucket.RESERVED,
        Bucket.DRAINING,
        Bucket.JOINING,
        Bucket.OUT,
        HOST_IDLE,
        UNUSED,
    }
)
"""Buckets of what was paid for and did not compute; what is not measured is not among them."""

WASTE_BY = ("bucket", "reason")
"""What waste is put together by."""

TEAM = "team"
"""The label of pods that names their team."""

LABEL = "label:"
"""How a grouping by a label begins."""


Key = tuple[str | None, ...]
"""What the rows of a group have in common."""


class Group(msgspec.Struct, frozen=True):
    """Rows put together. ``unpriced`` is the part of the quantity that has no price.

    ``amount_micro`` is None where no part of it has one.
    """

    key: Key
    quantity: int
    used: int
    unmeasured: int
    unpriced: int
    gpu_micro: int | None
    host_micro: int | None
    waste_micro: int | None
    other_micro: int | None = None

    @property
    def amount_micro(self) -> int | None:
        """What GPUs and host cost together, and what was billed for no node."""
        amounts = self.gpu_micro, self.host_micro, self.other_micro
        known = [amount for amount in amounts if amount is not None]
        return sum(known) if known else None


class Cost(msgspec.Struct, frozen=True):
    """What a time cost. ``nodes_micro`` is what the nodes cost in it by their prices alone.

    ``unseen`` is the quantity that no pod is known to hold, of times in which pods were not followed.
    ``unreported_micro`` is the amount of GPUs of nodes of which no report was read.
    """

    span: Span
    currency: str
    by: tuple[str, ...]
    groups: tuple[Group, ...]
    waste: tuple[Group, ...]
    total: Group
    nodes_micro: int
    unseen: int
    unreported_micro: int = 0


def cost_of(
    intervals: ByNode, book: PriceBook, span: Span, by: Sequence[str], division: Division = WITHOUT_BILL
) -> Cost:
    """The cost of a time that has an end. Hours that it cuts count in part; with a bill none may be cut."""
    answer = Answer(by)
    nodes_micro = 0
    # What is made of a node has no cycles, and is let go before the next one.
    with without_collections():
        for node in intervals.each():
            records, pods = node.records, node.pods
            for hour in hours_of(records, book, span, division):
                nodes_micro += hour.gpu_micro + hour.host_micro
                for row in rows_of(hour, records.priced_as.gpu_model, pods):
                    answer.add(row)
    for row in other_rows(division, span):
        answer.add(row)
    return answer.cost(span, book.currency or division.currency, nodes_micro)


class Answer:
    """Rows put together as they come."""

    def __init__(self, by: Sequence[str]) -> None:
        self._by = tuple(by)
        self._columns = [column(name) for name in by]
        self._parts: dict[tuple[Key, str, str], Part] = defaultdict(Part)
        self._unseen = 0
        self._unreported_micro = 0

    def add(self, row: CostRow) -> None:
        """One more row."""
        key = tuple([one(row) for one in self._columns])
        # Once a row; figures, waste and total are sums of these parts.
        self._parts[key, row.bucket, row.reason].add(row)
        if row.reason == UNSEEN and row.pod is None:
            self._unseen += row.quantity
            if row.device == NO_DEVICE:
                self._unreported_micro += row.amount_micro or 0

    def cost(self, span: Span, currency: str, nodes_micro: int) -> Cost:
        """All of them, as the cost of a time."""
        groups, waste, total = put_together(
            (key, bucket, reason, part) for (key, bucket, reason), part in self._parts.items()
        )
        return Cost(
            span,
            currency,
            self._by,
            groups,
            waste,
            total,
            nodes_micro,
            self._unseen,
            self._unreported_micro,
        )


class Part:
    """Rows of one group, bucket and reason; ``amount_micro`` is None where no row has an amount."""

    __slots__ = ("amount_micro", "quantity", "unpriced")

    def __init__(self, quantity: int = 0, unpriced: int = 0, amount_micro: int | None = None) -> None:
        self.quantity = quantity
        self.unpriced = unpriced
        self.amount_micro = amount_micro

    def add(self, row: CostRow) -> None:
        """One more row."""
        self.quantity += row.quantity
        if row.amount_micro is None:
            self.unpriced += row.quantity
        else:
            self.amount_micro = row.amount_micro + (self.amount_micro or 0)


def put_together(
    parts: Iterable[tuple[Key, str, str, Part]],
) -> tuple[tuple[Group, ...], tuple[Group, ...], Group]:
    """The groups, the waste by bucket and reason, and the total, of parts by key, bucket and reason."""
    groups, waste, total = defaultdict[Key, Sum](Sum), defaultdict[Key, Sum](Sum), Sum()
    for key, bucket, reason, part in parts:
        groups[key].add(bucket, part)
        total.add(bucket, part)
        if bucket in WASTE:
            waste[bucket, reason].add(bucket, part)
    return ordered(groups), ordered(waste), total.group(())


class Sum:
    """Quantities and amounts of some rows; an amount of which no row has a part is None."""

    def __init__(self) -> None:
        self.quantity = self.used = self.unmeasured = self.unpriced = 0
        self.gpu_micro: int | None = None
        self.host_micro: int | None = None
        self.other_micro: int | None = None
        self.waste_micro: int | None = None

    def add(self, bucket: str, part: Part) -> None:
        """Rows of one bucket."""
        amount = part.amount_micro
        self.quantity += part.quantity
        self.unpriced += part.unpriced
        if bucket == Bucket.USED:
            self.used += part.quantity
        elif bucket == Bucket.UNMEASURED:
            self.unmeasured += part.quantity
        if amount is None:
            return
        if bucket in HOSTS:
            self.host_micro = amount + (self.host_micro or 0)
        elif bucket in OTHERS:
            self.other_micro = amount + (self.other_micro or 0)
        else:
            self.gpu_micro = amount + (self.gpu_micro or 0)
        # Of what has a price and computes 0 is waste; of what has none nothing is known.
        self.waste_micro = (self.waste_micro or 0) + (amount if bucket in WASTE else 0)

    def group(self, key: Key) -> Group:
        """The sums of what has this in common."""
        return Group(
            key,
            self.quantity,
            self.used,
            self.unmeasured,
            self.unpriced,
            self.gpu_micro,
            self.host_micro,
            self.waste_micro,
            self.other_micro,
        )


def ordered(sums: Mapping[Key, Sum]) -> tuple[Group, ...]:
    """The groups of sums, what costs most first."""
    groups = (sum_.group(key) for key, sum_ in sums.items())
    return tuple(sorted(groups, key=lambda one: (-(one.amount_micro or 0), -one.quantity, _text(one.key))))


def _text(key: Key) -> tuple[str, ...]:
    return tuple(one or "" for one in key)


def column(name: str) -> Callable[[CostRow], str | None]:
    """What a grouping of that name tells of a row: None of what no pod holds, "" of a pod that has none."""
    if name.startswith(LABEL):
        key = name.removeprefix(LABEL)
        return _of_pod(lambda pod: dict(pod.labels).get(key, ""))
    return COLUMNS[name]


def _of_pod(read: Callable[[LedgerPod], str]) -> Callable[[CostRow], str | None]:
    def told(row: CostRow) -> str | None:
        if row.pod is not None:
            return read(row.pod)
        return row.bucket if row.bucket in OTHERS else None

    return told


SEEN, ESTIMATED = "seen", "estimated"
"""Whether what a row says was seen, or follows from what was seen before and after, or from samples."""

COLUMNS: Mapping[str, Callable[[CostRow], str | None]] = {
    "queue": _of_pod(lambda pod: pod.queue),
    "namespace": _of_pod(lambda pod: pod.namespace),
    "owner": _of_pod(lambda pod: f"{pod.namespace}/{pod.owner}" if pod.owner else ""),
    "gang": _of_pod(lambda pod: f"{pod.namespace}/{pod.gang}" if pod.gang else ""),
    "job": _of_pod(lambda pod: f"{pod.namespace}/{pod.gang or pod.owner}" if pod.gang or pod.owner else ""),
    "team": _of_pod(lambda pod: dict(pod.labels).get(TEAM, "")),
    "pod": _of_pod(lambda pod: f"{pod.namespace}/{pod.name}"),
    "node": lambda row: row.node,
    "model": lambda row: row.model,
    "device": lambda row: row.device,
    "bucket": lambda row: row.bucket,
    "reason": lambda row: row.reason,
    "price": lambda row: row.price_id,
    "state": lambda row: row.state,
    "evidence": lambda row: ESTIMATED if row.is_estimated else SEEN,
    "day": lambda row: _day(row.hour_us),
}
"""What rows can be put together by, beside labels of pods."""


def _day(hour_us: int) -> str:
    return dt.datetime.fromtimestamp(hour_us // US_PER_S, dt.UTC).strftime("%Y-%m-%d")


US_PER_S = 1_000_000
"""Python counts days from seconds."""
