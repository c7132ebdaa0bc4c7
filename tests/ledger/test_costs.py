"""Whatever rows are put together by, the sum is what the nodes cost."""

import random
from fractions import Fraction

import pytest

from gpufleet.ledger.buckets import Bucket, BusySpan, FreeState, Holding
from gpufleet.ledger.cost_rows import HOST, HOST_IDLE
from gpufleet.ledger.costs import COLUMNS, Cost, cost_of
from gpufleet.ledger.interval_log import Intervals, LedgerPod
from gpufleet.ledger.node_hour import HOUR_US, HostHolding, LedgerDevice, NodeRecords
from gpufleet.ledger.price_book import Price, PriceBook, PricedNode, PriceScope, PriceUnit
from gpufleet.ledger.spans import Span
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid

START = 24 * 20_000 * HOUR_US
DAY = Span(START, START + 24 * HOUR_US)
GPU_HOUR = 1_000 * HOUR_US
CARDS = (DeviceId("GPU-a"), DeviceId("GPU-b"))
PODS = tuple(
    LedgerPod(
        PodUid(f"uid-{number}"), "team", f"pod-{number}", queue, owner, "", (("cost", "x"),) * (number % 2)
    )
    for number, (queue, owner) in enumerate([("a", "Job/one"), ("a", ""), ("b", "Job/two"), ("", "")])
)


def hours(begin: float, end: float) -> Span:
    return Span(START + int(begin * HOUR_US), START + int(end * HOUR_US))


def price(amount: int, gpu: int, span: Span = DAY) -> Price:
    begin, end = span.from_us, span.until_us
    return Price(f"p{begin}", PriceScope(), PriceUnit.NODE_HOUR, amount, "USD", begin, end, gpu_micro=gpu)


def node(*holdings: Holding, **known: object) -> NodeRecords:
    devices = tuple(LedgerDevice(card, Span(START)) for card in CARDS)
    shares = tuple(HostHolding(one.pod_uid, Fraction(1, 2), one.span) for one in holdings)
    return NodeRecords(
        NodeName("n"),
        "uid-n",
        Span(START),
        PricedNode(gpu_model="H100-80GB"),
        devices,
        holdings,
        host_holdings=shares,
        **known,  # type: ignore[arg-type]
    )


def held(number: int, span: Span, card: DeviceId = CARDS[0], part: Fraction = Fraction(1)) -> Holding:
    """A pod that computes from its Binding on."""
    begin = span.from_us
    return Holding(card, PODS[number].uid, part, span, gang_whole_us=begin, started_us=begin)


def cost(
    *nodes: NodeRecords, by: tuple[str, ...] = (), book: PriceBook | None = None, span: Span = DAY
) -> Cost:
    prices = PriceBook([price(10_000_000, 8_000_000)]) if book is None else book
    return cost_of(Intervals(nodes, PODS), prices, span, by)


def test_a_day_by_hand() -> None:
    """8 $ an hour for two GPUs: a pod of queue a has one for half a day and computes for half of that."""
    span = hours(0, 12)
    busy = BusySpan(CARDS[0], PODS[0].uid, hours(0, 6), 1_000_000)
    idle = BusySpan(CARDS[0], PODS[0].uid, hours(6, 12), 0)
    found = cost(node(held(0, span), busy=(busy, idle)), by=("queue", "bucket"))
    amounts = {one.key: (one.quantity // GPU_HOUR, one.amount_micro) for one in found.groups}
    assert amounts == {
        ("a", Bucket.USED): (6, 24_000_000),
        ("a", Bucket.IDLE_HELD): (6, 24_000_000),
        ("a", HOST): (0, 12_000_000),
        (None, Bucket.IDLE_FREE): (36, 144_000_000),
        (None, HOST_IDLE): (0, 36_000_000),
    }
    assert found.nodes_micro == 240_000_000
    assert [(one.key, one.amount_micro) for one in found.waste] == [
        ((Bucket.IDLE_FREE, ""), 144_000_000),
        ((HOST_IDLE, ""), 36_000_000),
        ((Bucket.IDLE_HELD, ""), 24_000_000),
    ]
    assert found.total.waste_micro == 204_000_000


@pytest.mark.parametrize("seed", range(4))
def test_every_way_of_putting_rows_together_adds_up_to_what_the_nodes_cost(seed: int) -> None:
    draw = random.Random(seed)
    nodes = []
    for _ in range(2):
        begins = sorted(draw.uniform(0, 23) for _ in range(4))
        holdings = [
            held(
                draw.randrange(4),
                hours(begin, begin + draw.uniform(0, 5)),
                card,
                Fraction(1, draw.randint(1, 7)),
            )
            for begin in begins
            for card in CARDS
        ]
        state = FreeState(CARDS[1], Bucket.OUT, hours(3, draw.uniform(4, 20)), "unhealthy")
        nodes.append(node(*holdings, free_states=(state,)))
    book = PriceBook([price(7_000_001, 3_333_333, hours(0, 9)), price(11_999_999, 10_000_007, hours(9, 24))])
    expected = 2 * (9 * 7_000_001 + 15 * 11_999_999)
    for by in [(), *((name,) for name in COLUMNS), ("queue", "day", "label:cost"), ("bucket", "pod")]:
        found = cost(*nodes, by=by, book=book)
        assert sum(one.amount_micro or 0 for one in found.groups) == found.nodes_micro == expected
        assert sum(one.quantity for one in found.groups) == 2 * 2 * 24 * GPU_HOUR


def test_an_hour_that_is_cut_counts_in_part() -> None:
    found = cost(node(), span=hours(0.25, 1.5))
    assert found.nodes_micro == 12_500_000
    assert found.total.quantity == 2.5 * GPU_HOUR


def test_days_are_those_of_utc() -> None:
    found = cost(node(), by=("day",), span=hours(0, 24))
    assert [one.key for one in found.groups] == [("2024-10-04",)]


def test_what_has_no_price_has_hours_and_no_amount() -> None:
    found = cost(node(held(0, hours(0, 24))), by=("queue",), book=PriceBook([]))
    assert {one.key: one.amount_micro for one in found.groups} == {("a",): None, (None,): None}
    assert (found.total.unpriced, found.total.waste_micro) == (48 * GPU_HOUR, None)


def test_a_time_in_which_pods_were_not_followed_is_not_called_free() -> None:
    found = cost(node(unseen=(hours(6, 24),)), by=("bucket",))
    quantities = {one.key[0]: one.quantity for one in found.groups}
    assert quantities[Bucket.IDLE_FREE] == 12 * GPU_HOUR
    assert quantities[Bucket.UNMEASURED] == found.unseen == 36 * GPU_HOUR


def test_a_pod_without_a_queue_is_told_from_what_no_pod_holds() -> None:
    found = cost(node(held(3, hours(0, 24))), by=("queue",))
    assert {one.key for one in found.groups} == {("",), (None,)}


def test_a_node_without_gpus_counts_where_it_has_a_price() -> None:
    plain = NodeRecords(NodeName("cpu"), "uid-cpu", Span(START), PricedNode())
    assert cost(plain, book=PriceBook([])).groups == ()
    assert cost(plain).nodes_micro == 240_000_000


def test_what_a_node_costs_that_never_reported_is_told_and_no_waste() -> None:
    bare = NodeRecords(NodeName("n"), "uid-n", Span(START), PricedNode())
    found = cost(bare, by=("bucket",))
    assert (found.unreported_micro, found.total.waste_micro) == (24 * 8_000_000, 24 * 2_000_000)
    assert {one.key for one in found.groups} == {(Bucket.UNMEASURED,), (HOST_IDLE,)}
