"""One hour of one node: each microsecond of a GPU is in one bucket, each micro-unit of its price in one row.

An hour is always made anew from all that happened in it, never added to. So events that come late, twice or
in another order give equal rows, and where an interval is cut changes nothing: weights are added up by key
before anything is divided. ``buckets`` holds what is given, ``price_book`` the price.
"""

import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import msgspec

from gpufleet.ledger.buckets import (
    BUSY_WHOLE,
    FREE_ORDER,
    Bucket,
    BusySpan,
    FreeState,
    Holding,
)
from gpufleet.ledger.held_parts import CARD_PARTS, charges, charges_of_ratios
from gpufleet.ledger.price_book import Price, PriceBook, PricedNode, PriceSpan, PriceUnit
from gpufleet.ledger.spans import Span, end_us, pieces
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.money import apportion, rounded

HOUR_US = 3_600_000_000
NO_DEVICE = DeviceId("")
"""Stands in rows of a node's GPU price for time in which the node has shown no GPU yet."""

NO_POD = PodUid("")
"""Stands in rows of what no pod holds."""


class LedgerDevice(msgspec.Struct, frozen=True):
    """A GPU and the time in which its node had it."""

    id: DeviceId
    span: Span


class HostHolding(msgspec.Struct, frozen=True):
    """The part of a node's CPU and memory that a pod holds, the larger of both."""

    pod_uid: PodUid
    part: Fraction
    span: Span


class NodeRecords(msgspec.Struct, frozen=True):
    """All that is known of a node about an hour. Records that lie outside of the hour do no harm.

    In ``unseen`` times pods may have come and gone without being seen: what none is known to hold is not
    called free. What is known of ``sampled`` times is an estimate.
    """

    node: NodeName
    node_uid: str
    span: Span
    priced_as: PricedNode
    devices: tuple[LedgerDevice, ...] = ()
    holdings: tuple[Holding, ...] = ()
    busy: tuple[BusySpan, ...] = ()
    free_states: tuple[FreeState, ...] = ()
    host_holdings: tuple[HostHolding, ...] = ()
    unseen: tuple[Span, ...] = ()
    provider_id: str = ""
    sampled: tuple[Span, ...] = ()


class RowKey(msgspec.Struct, frozen=True, order=True):
    """What a row is about. ``reason`` is the cause of a stranded part or the queue of a reservation."""

    device: DeviceId
    bucket: Bucket
    pod_uid: PodUid
    reason: str
    price_id: str
    is_estimated: bool


class LedgerRow(msgspec.Struct, frozen=True):
    """A part of a device-hour. ``amount_micro`` is None in a gap of prices.

    The quantity is in thousandths of a GPU times microseconds; that of a row without a GPU is 0.
    """

    key: RowKey
    quantity: int
    amount_micro: int | None


class HostRow(msgspec.Struct, frozen=True):
    """A part of the host's price; without a pod it is what no pod holds. None in a gap of prices."""

    pod_uid: PodUid
    price_id: str
    amount_micro: int | None


class NodeHour(msgspec.Struct, frozen=True):
    """The rows of an hour, by key. Those with an amount add up to ``gpu_micro`` and ``host_micro``."""

    node: NodeName
    node_uid: str
    hour_us: int
    rows: tuple[LedgerRow, ...]
    host_rows: tuple[HostRow, ...]
    gpu_micro: int
    host_micro: int
    is_sampled: bool = False
    """True where any of it is an estimate from samples."""


MILLI_PARTS = CARD_PARTS // WHOLE_GPU_MILLI
"""Trillionths of a card in a thousandth."""

UNSEEN = "unseen"
"""The reason in rows of what no pod is known to hold, of a time in which pods were not followed."""

_Key = tuple[DeviceId, Bucket, PodUid, str, str, bool]
"""The fields of a RowKey: a month makes millions of keys, and tuples are found again faster."""

Weights = dict[_Key, int]
"""By row: trillionths of a card times microseconds."""


def account(records: NodeRecords, hour_us: int, book: PriceBook) -> NodeHour:
    """The rows of the hour that begins then."""
    start = max(hour_us, records.span.from_us)
    end = hour_us + HOUR_US
    if records.span.until_us is not None:
        end = min(end, records.span.until_us)
    spans = book.spans(records.priced_as, start, end) if start < end else ()
    rows, gpu_micro = _gpu_rows(records, spans)
    host_rows, host_micro = _host_rows(records.host_holdings, spans)
    return NodeHour(
        records.node,
        records.node_uid,
        hour_us,
        tuple(rows),
        tuple(host_rows),
        gpu_micro,
        host_micro,
        any(one.from_us < end and end_us(one) > start for one in records.sampled),
    )


def _gpu_rows(records: NodeRecords, spans: Sequence[PriceSpan]) -> tuple[list[LedgerRow], int]:
    weights: Weights = defaultdict(int)
    money: Weights = defaultdict(int)
    # Parts of one node's price are equal for all its GPUs; this multiple keeps them whole numbers.
    equal = math.lcm(*range(1, len(records.devices) + 1))
    cost = 0
    known = _by_device(records)
    for span, devices in _device_spans(records, spans):
        cost += _gpu_cost(span, len(devices))
        scale = _scale(span.price, equal, len(devices)) if devices else 0
        for device in devices:
            for key, weight in _device_weights(known[device], span).items():
                weights[key] += weight
                if span.price is not None:
                    money[key] += weight * scale
        # The price of a node has a row also while no GPU of it is known.
        if not devices and _is_per_node(span.price):
            key = _without_devices(records, span.price)
            length = span.until_us - span.from_us
            money[key] += CARD_PARTS * length * _scale(span.price, equal, 1)
    amounts, total = _divided_money(money, cost)
    quantities = _quantities(weights)
    keys = sorted(weights.keys() | money.keys())
    rows = [LedgerRow(RowKey(*key), quantities.get(key, 0), amounts.get(key)) for key in keys]
    return rows, total


def _without_devices(records: NodeRecords, price: Price | None) -> _Key:
    """A node joins before its first report. Where none was ever read, nothing is known of its GPUs."""
    if records.devices:
        return NO_DEVICE, Bucket.JOINING, NO_POD, "", _id(price), False
    return NO_DEVICE, Bucket.UNMEASURED, NO_POD, UNSEEN, _id(price), True


def _divided_money(weights: Weights, cost: int) -> tuple[dict[_Key, int], int]:
    """The amounts of the keys that have a price, and their sum, of micro-units times microseconds."""
    priced = sorted(key for key in weights if key[4])
    total = rounded(cost, HOUR_US)
    if not any(weights[key] for key in priced):
        # A price of 0 has nothing to divide.
        return dict.fromkeys(priced, 0), 0
    return dict(zip(priced, apportion(total, [weights[key] for key in priced]), strict=True)), total


def _quantities(weights: Weights) -> dict[_Key, int]:
    """Those of a device add up to a thousand for each microsecond of it."""
    if not any(weight % MILLI_PARTS for weight in weights.values()):
        # Whole thousandths have no remainder to divide, and few cards are held in other parts.
        return {key: weight // MILLI_PARTS for key, weight in weights.items()}
    found: dict[_Key, int] = {}
    for _, of_device in itertools.groupby(sorted(weights), key=operator.itemgetter(0)):
        keys = list(of_device)
        parts = [weights[key] for key in keys]
        found.update(zip(keys, apportion(WHOLE_GPU_MILLI * (sum(parts) // CARD_PARTS), parts), strict=True))
    return found


def _device_spans(
    records: NodeRecords, spans: Iterable[PriceSpan]
) -> Iterator[tuple[PriceSpan, tuple[DeviceId, ...]]]:
    """Times within which the price and the set of GPUs stay what they are."""
    changes = {at for device in records.devices for at in device.span.bounds()}
    for span in spans:
        for start, end in pieces(span.from_us, span.until_us, changes):
            there = sorted({device.id for device in records.devices if device.span.covers(start)})
            yield PriceSpan(start, end, span.price), tuple(there)


class _DeviceRecords(msgspec.Struct, frozen=True):
    """What is known of one GPU in an hour, with the moments at which something changes."""

    device: DeviceId
    times: Sequence[tuple[int, int, Holding]]
    busy: Sequence[BusySpan]
    states: tuple[FreeState, ...]
    unseen: tuple[Span, ...]
    sampled: tuple[Span, ...]
    changes: Sequence[int]


def _by_device(records: NodeRecords) -> dict[DeviceId, _DeviceRecords]:
    holdings: dict[DeviceId, list[Holding]] = defaultdict(list)
    for holding in records.holdings:
        holdings[holding.device].append(holding)
    busy: dict[DeviceId, list[BusySpan]] = defaultdict(list)
    for measured in records.busy:
        busy[measured.device].append(measured)
    devices = {device.id for device in records.devices}
    return {one: _of_device(records, one, holdings.get(one, ()), busy.get(one, ())) for one in devices}


def _of_device(
    records: NodeRecords, device: DeviceId, holdings: Sequence[Holding], busy: Sequence[BusySpan]
) -> _DeviceRecords:
    states = tuple([one for one in records.free_states if one.device in (None, device)])
    changes = [at for one in holdings for at in one.bounds()]
    # Most hours have none of these.
    if busy or states or records.unseen or records.sampled:
        known = (*(one.span for one in busy), *(one.span for one in states))
        changes += [at for one in (*known, *records.unseen, *records.sampled) for at in one.bounds()]
    times = [(one.span.from_us, end_us(one.span), one) for one in holdings]
    return _DeviceRecords(device, times, busy, states, records.unseen, records.sampled, changes)


def _device_weights(known: _DeviceRecords, span: PriceSpan) -> Weights:
    """The buckets of one GPU over a time with one price."""
    weights: Weights = defaultdict(int)
    price_id = _id(span.price)
    device, times = known.device, known.times
    for start, end in pieces(span.from_us, span.until_us, known.changes):
        length = end - start
        held = _in_order([one for since, until, one in times if since <= start < until], start)
        is_sampled = bool(known.sampled) and any(one.covers(start) for one in known.sampled)
        charged, free = charges([one.part for one in held])
        for bucket, pod_uid, reason, is_estimated, amount in _held_parts(held, charged, known.busy, start):
            if amount:
                weights[device, bucket, pod_uid, reason, price_id, is_estimated or is_sampled] += (
                    amount * length
                )
        if not free:
            continue
        is_seen = not (known.unseen and any(one.covers(start) for one in known.unseen))
        for bucket, pod_uid, reason, is_estimated, amount in _free_parts(
            known.states, free, start, is_seen=is_seen
        ):
            if amount:
                weights[device, bucket, pod_uid, reason, price_id, is_estimated or is_sampled] += (
                    amount * length
                )
    return weights


def _in_order(held: list[Holding], at_us: int) -> list[Holding]:
    """What is held; equal ones come to equal rows, whatever the order in which they were given."""
    if len(held) > 1:
        held.sort(key=lambda one: (one.pod_uid, one.part, one.phase(at_us) or "", one.is_estimated(at_us)))
    return held


Part = tuple[Bucket, PodUid, str, bool, int]
"""Bucket, pod, reason, whether it is an estimate, trillionths of the card."""


def _held_parts(
    held: Iterable[Holding], charged: Iterable[int], busy: Iterable[BusySpan], at_us: int
) -> Iterator[Part]:
    for holding, amount in zip(held, charged, strict=True):
        phase = holding.phase(at_us)
        if phase is not None:
            yield phase, holding.pod_uid, "", holding.is_estimated(at_us), amount
            continue
        measured = [one.busy for one in busy if one.pod_uid == holding.pod_uid and one.span.covers(at_us)]
        if not measured:
            yield Bucket.UNMEASURED, holding.pod_uid, "", False, amount
            continue
        # Measurements may overlap; the highest counts, so that no work is called idle.
        used = amount * max(measured) // BUSY_WHOLE
        yield Bucket.USED, holding.pod_uid, "", False, used
        yield Bucket.IDLE_HELD, holding.pod_uid, "", False, amount - used


def _free_parts(states: Iterable[FreeState], free: int, at_us: int, *, is_seen: bool) -> Iterator[Part]:
    now = [state for state in states if state.span.covers(at_us)]
    if len(now) > 1:
        now.sort(key=lambda state: (FREE_ORDER.index(state.bucket), state.reason))
    for state in now:
        limit = free if state.milli is None else state.milli * MILLI_PARTS
        # States may overlap: each takes of what those before it have left.
        taken = min(free, limit)
        free -= taken
        yield state.bucket, NO_POD, state.reason, False, taken
    if is_seen:
        yield Bucket.IDLE_FREE, NO_POD, "", False, free
    else:
        yield Bucket.UNMEASURED, NO_POD, UNSEEN, True, free


def _host_rows(holdings: Iterable[HostHolding], spans: Iterable[PriceSpan]) -> tuple[list[HostRow], int]:
    by_pod = sorted(holdings, key=lambda one: (one.pod_uid, one.part))
    # Plain numbers, since each is compared at every change of the hour.
    times = [(one.span.from_us, end_us(one.span), one.pod_uid, one.part.as_integer_ratio()) for one in by_pod]
    changes = [at for one in by_pod for at in one.span.bounds()]
    weights: dict[tuple[PodUid, str], int] = defaultdict(int)
    cost = 0
    for span in spans:
        host_micro = 0 if span.price is None else span.price.host_micro
        cost += host_micro * (span.until_us - span.from_us)
        # A gap has no price to weigh by, and its rows have no amount; they only have to be there.
        scale = host_micro if span.price is not None else 1
        price_id = _id(span.price)
        for start, end in pieces(span.from_us, span.until_us, changes):
            held = [(uid, part) for since, until, uid, part in times if since <= start < until]
            charged, free = charges_of_ratios(tuple([part for _, part in held]))
            scaled = (end - start) * scale
            for (uid, _), amount in zip(held, charged, strict=True):
                weights[uid, price_id] += amount * scaled
            weights[NO_POD, price_id] += free * scaled
    priced = sorted(key for key, weight in weights.items() if key[1] and weight)
    total = rounded(cost, HOUR_US)
    amounts = dict(zip(priced, apportion(total, [weights[key] for key in priced]), strict=True))
    found = sorted(key for key, weight in weights.items() if weight)
    return [HostRow(pod_uid, price, amounts.get((pod_uid, price))) for pod_uid, price in found], total


def _gpu_cost(span: PriceSpan, devices: int) -> int:
    """What the GPUs cost in that time, in micro-units times microseconds of an hourly price."""
    if span.price is None:
        return 0
    length = span.until_us - span.from_us
    if span.price.gpu_micro is not None:
        return span.price.gpu_micro * length
    return span.price.amount_micro * length * devices


def _scale(price: Price | None, equal: int, devices: int) -> int:
    """The price of one GPU of so many, as a weight; 0 in a gap."""
    if price is None:
        return 0
    if price.gpu_micro is not None:
        return price.gpu_micro * (equal // devices)
    return price.amount_micro * equal


def _is_per_node(price: Price | None) -> bool:
    return price is None or price.unit is PriceUnit.NODE_HOUR


def _id(price: Price | None) -> str:
    return "" if price is None else price.id
