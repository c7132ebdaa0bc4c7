"""An hour of a node adds up: to the time of its GPUs, and to its price, whatever happened in it.

The expected parts are worked out minute by minute with fractions, by the rules in ``buckets`` alone.
"""

import random
from collections import defaultdict
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.ledger.buckets import FREE_ORDER, Bucket, BusySpan, FreeState, Holding
from gpufleet.ledger.node_hour import (
    HOUR_US,
    NO_DEVICE,
    NO_POD,
    UNSEEN,
    HostHolding,
    LedgerDevice,
    LedgerRow,
    NodeHour,
    NodeRecords,
    account,
)
from gpufleet.ledger.price_book import Price, PriceBook, PricedNode, PriceScope, PriceUnit
from gpufleet.ledger.spans import Span
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid

START = 1_790_000 * HOUR_US
MINUTE_US = HOUR_US // 60
DEVICES = tuple(DeviceId(f"gpu-{number}") for number in range(3))
PODS = tuple(PodUid(f"pod-{number}") for number in range(4))
DOLLAR = 1_000_000


def minutes(begin: int, end: int | None = None) -> Span:
    """Minutes of the hour; before and after it too."""
    return Span(START + begin * MINUTE_US, None if end is None else START + end * MINUTE_US)


def per_node(name: str, gpu_micro: int, host_micro: int, span: Span) -> Price:
    amount = gpu_micro + host_micro
    scope = PriceScope()
    return Price(
        name, scope, PriceUnit.NODE_HOUR, amount, "USD", span.from_us, span.until_us, gpu_micro=gpu_micro
    )


def per_gpu(name: str, amount: int, span: Span) -> Price:
    return Price(name, PriceScope(), PriceUnit.GPU_HOUR, amount, "USD", span.from_us, span.until_us)


def records(**changed: object) -> NodeRecords:
    known: dict[str, object] = {
        "devices": tuple(LedgerDevice(device, minutes(-600)) for device in DEVICES),
        **changed,
    }
    return NodeRecords(NodeName("n"), "uid-n", minutes(-600), PricedNode(), **known)  # type: ignore[arg-type]


def running(device: DeviceId, pod: PodUid, part: Fraction, span: Span) -> Holding:
    """A pod that computes from its Binding on."""
    return Holding(device, pod, part, span, gang_whole_us=span.from_us, started_us=span.from_us)


def of(hour: NodeHour, device: DeviceId, bucket: Bucket, pod: PodUid = NO_POD) -> list[LedgerRow]:
    return [
        row for row in hour.rows if (row.key.device, row.key.bucket, row.key.pod_uid) == (device, bucket, pod)
    ]


def test_an_hour_by_hand() -> None:
    """24 dollars for 3 GPUs, 6 for the host. A pod has half a GPU for half an hour, busy a quarter of it."""
    span = minutes(0, 30)
    hour = account(
        records(
            holdings=(running(DEVICES[0], PODS[0], Fraction(1, 2), span),),
            busy=(BusySpan(DEVICES[0], PODS[0], span, 250_000),),
            host_holdings=(HostHolding(PODS[0], Fraction(1, 4), span),),
        ),
        START,
        PriceBook([per_node("p", 24 * DOLLAR, 6 * DOLLAR, minutes(-600))]),
    )
    (used,) = of(hour, DEVICES[0], Bucket.USED, PODS[0])
    (idle,) = of(hour, DEVICES[0], Bucket.IDLE_HELD, PODS[0])
    (free,) = of(hour, DEVICES[0], Bucket.IDLE_FREE)
    assert [row.amount_micro for row in (used, idle, free)] == [500_000, 1_500_000, 6 * DOLLAR]
    assert used.quantity == 125 * 30 * MINUTE_US
    assert free.quantity == 500 * 30 * MINUTE_US + 1_000 * 30 * MINUTE_US
    assert hour.gpu_micro == 24 * DOLLAR
    assert [(row.pod_uid, row.amount_micro) for row in hour.host_rows] == [
        (NO_POD, 5_250_000),
        (PODS[0], 750_000),
    ]


def test_what_cannot_be_divided_goes_to_the_largest_remainder() -> None:
    """A dollar for three GPUs: the last micro-unit is one GPU's."""
    hour = account(records(), START, PriceBook([per_node("p", DOLLAR, 0, minutes(-600))]))
    assert [row.amount_micro for row in hour.rows] == [333_334, 333_333, 333_333]


def test_a_node_pays_for_its_gpus_before_it_shows_them() -> None:
    late = tuple(LedgerDevice(device, minutes(15)) for device in DEVICES)
    hour = account(records(devices=late), START, PriceBook([per_node("p", 24 * DOLLAR, 0, minutes(-600))]))
    (joining,) = of(hour, NO_DEVICE, Bucket.JOINING)
    assert (joining.quantity, joining.amount_micro) == (0, 6 * DOLLAR)
    assert sum(row.amount_micro or 0 for row in hour.rows) == 24 * DOLLAR


def test_of_a_node_that_never_reported_its_gpus_nothing_is_called_waste() -> None:
    """Where gpufleet is not installed, and where its reports may not be read."""
    hour = account(records(devices=()), START, PriceBook([per_node("p", 24 * DOLLAR, 0, minutes(-600))]))
    (row,) = hour.rows
    assert (row.key.bucket, row.key.reason, row.key.is_estimated) == (Bucket.UNMEASURED, UNSEEN, True)
    assert (row.quantity, row.amount_micro) == (0, 24 * DOLLAR)


def test_a_gap_of_prices_has_quantities_and_no_amount() -> None:
    book = PriceBook([per_gpu("p", 2 * DOLLAR, minutes(-600, 30))])
    hour = account(records(), START, book)
    priced = [row.amount_micro for row in hour.rows if row.key.price_id]
    gap = [row for row in hour.rows if not row.key.price_id]
    assert priced == [DOLLAR] * 3
    assert [(row.amount_micro, row.quantity) for row in gap] == [(None, 1_000 * 30 * MINUTE_US)] * 3
    assert [row.amount_micro for row in hour.host_rows] == [None]


def test_a_price_of_nothing_is_an_amount_of_0() -> None:
    hour = account(records(), START, PriceBook([per_gpu("p", 0, minutes(-600))]))
    assert [row.amount_micro for row in hour.rows] == [0, 0, 0]


def test_a_reservation_of_a_queue_comes_before_a_stranded_remainder() -> None:
    states = (
        FreeState(DEVICES[0], Bucket.STRANDED, minutes(0), "memory", milli=300),
        FreeState(DEVICES[0], Bucket.RESERVED, minutes(30), "research"),
        FreeState(None, Bucket.DRAINING, minutes(45)),
    )
    hour = account(records(free_states=states), START, PriceBook([]))
    found = {
        (row.key.bucket, row.key.reason): row.quantity // MINUTE_US
        for row in hour.rows
        if row.key.device == DEVICES[0]
    }
    assert found == {
        (Bucket.STRANDED, "memory"): 300 * 30,
        (Bucket.IDLE_FREE, ""): 700 * 30,
        (Bucket.RESERVED, "research"): 1_000 * 15,
        (Bucket.DRAINING, ""): 1_000 * 15,
    }


def test_outside_of_its_life_a_node_has_no_rows() -> None:
    gone = NodeRecords(NodeName("n"), "u", minutes(-90, -60), PricedNode())
    hour = account(gone, START, PriceBook([per_node("p", DOLLAR, DOLLAR, minutes(-600))]))
    assert (hour.rows, hour.host_rows, hour.gpu_micro, hour.host_micro) == ((), (), 0, 0)


class Story:
    """A random hour: its records, and its price at each minute."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.devices = tuple(
            LedgerDevice(device, self.span() if draw.random() < 0.3 else minutes(-600)) for device in DEVICES
        )
        self.holdings = tuple(self.holding() for _ in range(draw.randrange(9)))
        self.busy = tuple(
            BusySpan(one.device, one.pod_uid, self.span(), draw.randrange(1_000_001)) for one in self.holdings
        )
        self.states = tuple(
            FreeState(
                draw.choice([None, *DEVICES]),
                draw.choice(FREE_ORDER),
                self.span(),
                draw.choice(["", "a", "b"]),
                draw.choice([None, 250, 999]),
            )
            for _ in range(draw.randrange(4))
        )
        self.hosts = tuple(
            HostHolding(pod, Fraction(draw.randrange(70), 97), self.span())
            for pod in PODS[: draw.randrange(5)]
        )
        change = draw.randrange(-20, 80)
        amount = draw.randrange(100 * DOLLAR)
        host = draw.randrange(10 * DOLLAR)
        self.prices = [per_node("first", amount, host, minutes(-600, change))]
        if draw.random() < 0.5:
            self.prices.append(per_gpu("second", amount // 8, minutes(change)))

    def span(self) -> Span:
        """At least a minute, somewhere about the hour."""
        begin = self.draw.randrange(-20, 60)
        return minutes(begin, self.draw.choice([None, begin + 1 + self.draw.randrange(70)]))

    def holding(self) -> Holding:
        """A part with marks that may not have come, in order."""
        draw = self.draw
        part = draw.choice(
            [Fraction(1), Fraction(1, 3), Fraction(4, 7), Fraction(draw.randrange(1, 999), 1_000)]
        )
        moments = sorted(draw.randrange(-10, 80) for _ in range(4))
        marks = [START + at * MINUTE_US if draw.random() < 0.8 else None for at in moments]
        return Holding(
            draw.choice(DEVICES),
            draw.choice(PODS),
            part,
            self.span(),
            gang_whole_us=marks[0],
            started_us=marks[1],
            ready_us=marks[2],
            has_readiness_probe=draw.random() < 0.5,
            deletion_us=marks[3],
            seen_until_us=None if draw.random() < 0.7 else START + draw.randrange(60) * MINUTE_US,
        )

    def records(self) -> NodeRecords:
        """What the ledger is given, in any order, with some of it twice where that cannot count twice."""
        busy, states = [*self.busy, *self.busy], list(self.states)
        holdings, hosts = list(self.holdings), list(self.hosts)
        for part in (busy, states, holdings, hosts):
            self.draw.shuffle(part)
        return records(
            devices=self.devices,
            holdings=tuple(holdings),
            busy=tuple(busy),
            free_states=tuple(states),
            host_holdings=tuple(hosts),
        )


def expected_parts(story: Story) -> dict[tuple[DeviceId, Bucket, PodUid, str], Fraction]:
    """Card-minutes by device, bucket, pod and reason."""
    found: dict[tuple[DeviceId, Bucket, PodUid, str], Fraction] = defaultdict(Fraction)
    for minute in range(60):
        at = START + minute * MINUTE_US
        for device in {one.id for one in story.devices if one.span.covers(at)}:
            held = [one for one in story.holdings if one.device == device and one.span.covers(at)]
            over = max(Fraction(1), sum((one.part for one in held), Fraction(0)))
            free = Fraction(1)
            for one in held:
                charge = one.part / over
                free -= charge
                for bucket, share in _of_pod(story, one, at):
                    found[device, bucket, one.pod_uid, ""] += charge * share
            for bucket in FREE_ORDER:
                for state in sorted(story.states, key=lambda state: state.reason):
                    if state.bucket is bucket and state.device in (None, device) and state.span.covers(at):
                        taken = free if state.milli is None else min(free, Fraction(state.milli, 1_000))
                        found[device, bucket, NO_POD, state.reason] += taken
                        free -= taken
            found[device, Bucket.IDLE_FREE, NO_POD, ""] += free
    return found


def _of_pod(story: Story, one: Holding, at: int) -> list[tuple[Bucket, Fraction]]:
    if one.seen_until_us is not None and at >= one.seen_until_us:
        return [(Bucket.UNMEASURED, Fraction(1))]
    if one.deletion_us is not None and at >= one.deletion_us:
        return [(Bucket.ENDING, Fraction(1))]
    if one.gang_whole_us is None or at < one.gang_whole_us:
        return [(Bucket.WAITING, Fraction(1))]
    if one.started_us is None or at < one.started_us:
        return [(Bucket.STARTING, Fraction(1))]
    if one.has_readiness_probe and (one.ready_us is None or at < one.ready_us):
        return [(Bucket.LOADING, Fraction(1))]
    samples = [
        Fraction(sample.busy, 1_000_000)
        for sample in story.busy
        if (sample.device, sample.pod_uid) == (one.device, one.pod_uid) and sample.span.covers(at)
    ]
    if not samples:
        return [(Bucket.UNMEASURED, Fraction(1))]
    return [(Bucket.USED, max(samples)), (Bucket.IDLE_HELD, 1 - max(samples))]


SEEDS = st.integers(0, 10**6)
thousand_seeds = settings(max_examples=1_000)
"""What an invoice relies on is tried on ten times as many stories as other rules."""


@thousand_seeds
@given(SEEDS)
def test_every_part_is_in_the_bucket_of_the_rules(seed: int) -> None:
    story = Story(seed)
    hour = account(story.records(), START, PriceBook(story.prices))
    found: dict[tuple[DeviceId, Bucket, PodUid, str], int] = defaultdict(int)
    rows: dict[tuple[DeviceId, Bucket, PodUid, str], int] = defaultdict(int)
    for row in hour.rows:
        key = row.key.device, row.key.bucket, row.key.pod_uid, row.key.reason
        found[key] += row.quantity
        rows[key] += 1
    expected = expected_parts(story)
    for key in expected.keys() | found.keys():
        # One unit for each row by which a key is told, and a trillionth of a card for each minute.
        assert abs(found[key] - expected[key] * 1_000 * MINUTE_US) <= rows[key] + 20, key


@thousand_seeds
@given(SEEDS)
def test_rows_add_up_to_the_time_of_each_gpu_and_to_the_price(seed: int) -> None:
    story = Story(seed)
    hour = account(story.records(), START, PriceBook(story.prices))
    for device in DEVICES:
        existed = sum(
            any(one.id == device and one.span.covers(START + minute * MINUTE_US) for one in story.devices)
            for minute in range(60)
        )
        total = sum(row.quantity for row in hour.rows if row.key.device == device)
        assert total == existed * 1_000 * MINUTE_US
    assert sum(row.amount_micro or 0 for row in hour.rows) == hour.gpu_micro
    assert sum(row.amount_micro or 0 for row in hour.host_rows) == hour.host_micro
    gpu, host = _cost(story)
    assert abs(hour.gpu_micro - gpu) <= Fraction(1, 2)
    assert abs(hour.host_micro - host) <= Fraction(1, 2)
    assert all(row.quantity >= 0 and (row.amount_micro or 0) >= 0 for row in hour.rows)


def _cost(story: Story) -> tuple[Fraction, Fraction]:
    """What the hour costs, GPUs and host."""
    gpu = host = Fraction(0)
    for minute in range(60):
        at = START + minute * MINUTE_US
        there = len({one.id for one in story.devices if one.span.covers(at)})
        for price in story.prices:
            if price.from_us <= at and (price.until_us is None or at < price.until_us):
                gpu += Fraction(
                    price.amount_micro * there if price.gpu_micro is None else price.gpu_micro, 60
                )
                host += Fraction(price.host_micro, 60)
    return gpu, host


@thousand_seeds
@given(SEEDS)
def test_order_and_repetition_change_no_row(seed: int) -> None:
    story = Story(seed)
    first = account(story.records(), START, PriceBook(story.prices))
    assert account(story.records(), START, PriceBook(reversed(story.prices))) == first


@thousand_seeds
@given(SEEDS, st.integers(1, 59))
def test_where_intervals_are_cut_changes_no_row(seed: int, minute: int) -> None:
    story = Story(seed)
    whole = account(story.records(), START, PriceBook(story.prices))
    at = START + minute * MINUTE_US
    story.holdings = tuple(piece for one in story.holdings for piece in _cut(one, at))
    assert account(story.records(), START, PriceBook(story.prices)) == whole


def _cut(one: Holding, at: int) -> tuple[Holding, ...]:
    span = one.span
    if not span.covers(at) or span.from_us == at:
        return (one,)
    first, second = Span(span.from_us, at), Span(at, span.until_us)
    return tuple(msgspec.structs.replace(one, span=piece) for piece in (first, second))


@thousand_seeds
@given(SEEDS)
def test_no_pod_pays_more_than_its_part_of_the_price(seed: int) -> None:
    """A GPU's price times part and time, up to one unit of each row."""
    story = Story(seed)
    hour = account(story.records(), START, PriceBook(story.prices))
    paid: dict[PodUid, int] = defaultdict(int)
    rows: dict[PodUid, int] = defaultdict(int)
    for row in hour.rows:
        paid[row.key.pod_uid] += row.amount_micro or 0
        rows[row.key.pod_uid] += 1
    limit: dict[PodUid, Fraction] = defaultdict(Fraction)
    for minute in range(60):
        at = START + minute * MINUTE_US
        there = {one.id for one in story.devices if one.span.covers(at)}
        for price in story.prices:
            if not (price.from_us <= at and (price.until_us is None or at < price.until_us)):
                continue
            of_card = Fraction(price.amount_micro)
            if price.gpu_micro is not None:
                of_card = Fraction(price.gpu_micro, len(there) or 1)
            for one in story.holdings:
                if one.span.covers(at) and one.device in there:
                    limit[one.pod_uid] += of_card * one.part / 60
    for pod in PODS:
        assert paid[pod] <= limit[pod] + rows[pod]


@pytest.mark.parametrize("part", [Fraction(1, 3), Fraction(4, 7), Fraction(1)])
def test_a_pod_beside_others_pays_no_more_than_alone(part: Fraction) -> None:
    book = PriceBook([per_gpu("p", 3 * DOLLAR, minutes(-600))])
    mine = running(DEVICES[0], PODS[0], part, minutes(0))
    neighbour = running(DEVICES[0], PODS[1], Fraction(2, 3), minutes(20))

    def paid(*held: Holding) -> int:
        hour = account(records(holdings=held), START, book)
        return sum(row.amount_micro or 0 for row in hour.rows if row.key.pod_uid == PODS[0])

    assert paid(mine, neighbour) <= paid(mine) + 1
