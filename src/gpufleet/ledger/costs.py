"""What a time of a fleet cost, put together by queue, namespace, owner, bucket and more.

Rows of hours are only added up, so every way of putting them together has one sum: what the nodes cost in
that time. Hours without a price have hours of GPUs and no amount.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from gpufleet.ledger.buckets import Bucket
from gpufleet.ledger.interval_log import Intervals, LedgerPod
from gpufleet.ledger.node_hour import HOUR_US, NO_DEVICE, NO_POD, UNSEEN, NodeHour, NodeRecords, account
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span, end_us, within
from gpufleet.model.identifiers import PodUid

HOST, HOST_IDLE = "host", "host-idle"
"""Buckets of the part of a node's price that is for CPUs and memory: held by a pod, and by none."""

HOSTS = (HOST, HOST_IDLE)
"""Both of them; their rows have no hours of GPUs."""

WASTE = (
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
)
"""Buckets of what was paid for and did not compute; what is not measured is not among them."""

WASTE_BY = ("bucket", "reason")
"""What waste is put together by."""

LABEL = "label:"
"""How a grouping by a label begins."""


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

    @property
    def amount_micro(self) -> int | None:
        """What GPUs and host cost together."""
        return _sum((self.gpu_micro, self.host_micro))


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


def cost_of(intervals: Intervals, book: PriceBook, span: Span, by: Sequence[str]) -> Cost:
    """The cost of a time that has an end. Hours that it cuts count in part."""
    pods = {pod.uid: pod for pod in intervals.pods}
    rows: list[CostRow] = []
    nodes_micro = 0
    for records in intervals.nodes:
        for hour in hours_of(records, book, span):
            nodes_micro += hour.gpu_micro + hour.host_micro
            rows += _rows(hour, records.priced_as.gpu_model, pods)
    waste = [row for row in rows if row.bucket in WASTE]
    # Without a row there is no group, and the total is that of nothing.
    (total,) = grouped(rows, ()) or (_group((), ()),)
    return Cost(
        span,
        book.currency,
        tuple(by),
        grouped(rows, by),
        grouped(waste, WASTE_BY),
        total,
        nodes_micro,
        sum(row.quantity for row in rows if row.reason == UNSEEN and row.pod is None),
        sum(row.amount_micro or 0 for row in rows if row.reason == UNSEEN and row.device == NO_DEVICE),
    )


def grouped(rows: Iterable[CostRow], by: Sequence[str]) -> tuple[Group, ...]:
    """The rows put together, what costs most first."""
    columns = [column(name) for name in by]
    found: dict[Key, list[CostRow]] = defaultdict(list)
    for row in rows:
        found[tuple(one(row) for one in columns)].append(row)
    groups = (_group(key, members) for key, members in found.items())
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
    return lambda row: None if row.pod is None else read(row.pod)


COLUMNS: Mapping[str, Callable[[CostRow], str | None]] = {
    "queue": _of_pod(lambda pod: pod.queue),
    "namespace": _of_pod(lambda pod: pod.namespace),
    "owner": _of_pod(lambda pod: f"{pod.namespace}/{pod.owner}" if pod.owner else ""),
    "gang": _of_pod(lambda pod: f"{pod.namespace}/{pod.gang}" if pod.gang else ""),
    "pod": _of_pod(lambda pod: f"{pod.namespace}/{pod.name}"),
    "node": lambda row: row.node,
    "model": lambda row: row.model,
    "device": lambda row: row.device,
    "bucket": lambda row: row.bucket,
    "reason": lambda row: row.reason,
    "price": lambda row: row.price_id,
    "day": lambda row: _day(row.hour_us),
}
"""What rows can be put together by, beside labels of pods."""


def hours_of(records: NodeRecords, book: PriceBook, span: Span) -> Iterator[NodeHour]:
    """The hours of a node that has GPUs or a price. Those that the time cuts count in part."""
    life = within(records.span, span)
    there = msgspec.structs.replace(records, span=life)
    has_gpus = bool(records.devices)
    # From the begin of an hour of the clock, because an hour is accounted for as a whole.
    for hour_us in range(life.from_us // HOUR_US * HOUR_US, end_us(life), HOUR_US):
        hour = account(_of_hour(there, Span(hour_us, hour_us + HOUR_US)), hour_us, book)
        # A node without GPUs and without a price is no business of a ledger of GPUs.
        if has_gpus or hour.gpu_micro or hour.host_micro:
            yield hour


def _of_hour(records: NodeRecords, hour: Span) -> NodeRecords:
    """What of the records touches an hour, so that a long time is not looked through for each."""

    def touches(span: Span) -> bool:
        return span.from_us < end_us(hour) and hour.from_us < end_us(span)

    return msgspec.structs.replace(
        records,
        holdings=tuple(one for one in records.holdings if touches(one.span)),
        busy=tuple(one for one in records.busy if touches(one.span)),
        free_states=tuple(one for one in records.free_states if touches(one.span)),
        host_holdings=tuple(one for one in records.host_holdings if touches(one.span)),
    )


def _rows(hour: NodeHour, model: str, pods: Mapping[PodUid, LedgerPod]) -> Iterator[CostRow]:
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
            hour.hour_us, hour.node, model, "", bucket, "", pod, host.price_id, False, 0, host.amount_micro
        )


def _group(key: Key, rows: Sequence[CostRow]) -> Group:
    def quantity(*buckets: str) -> int:
        return sum(row.quantity for row in rows if row.bucket in buckets)

    hosts = [row for row in rows if row.bucket in HOSTS]
    gpus = [row for row in rows if row.bucket not in HOSTS]
    return Group(
        key,
        sum(row.quantity for row in rows),
        quantity(Bucket.USED),
        quantity(Bucket.UNMEASURED),
        sum(row.quantity for row in rows if row.amount_micro is None),
        _sum(row.amount_micro for row in gpus),
        _sum(row.amount_micro for row in hosts),
        _waste(rows),
    )


def _waste(rows: Sequence[CostRow]) -> int | None:
    """What of the amount is waste; 0 where all is known to compute, None where nothing has a price."""
    if all(row.amount_micro is None for row in rows):
        return None
    return sum(row.amount_micro or 0 for row in rows if row.bucket in WASTE)


def _sum(amounts: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None where none is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _day(hour_us: int) -> str:
    return dt.datetime.fromtimestamp(hour_us // US_PER_S, dt.UTC).strftime("%Y-%m-%d")


US_PER_S = 1_000_000
"""Python counts days from seconds."""
