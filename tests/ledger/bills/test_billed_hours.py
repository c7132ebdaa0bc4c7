"""What was billed is divided among nodes, hours and holders to a micro-unit, and none of it is lost."""

import random
from collections import Counter

import msgspec
import pytest

from gpufleet.ledger.bills.bill_lines import Bill, BilledResource, BillLine
from gpufleet.ledger.bills.billed_hours import BILLED, CORRECTION, divide
from gpufleet.ledger.buckets import Bucket
from gpufleet.ledger.cost_rows import HOST, HOST_IDLE, PROVISIONAL, UNMATCHED, UNUSED
from gpufleet.ledger.costs import Cost, cost_of
from gpufleet.ledger.interval_log import Intervals
from gpufleet.ledger.node_hour import HOUR_US, NodeRecords
from gpufleet.ledger.price_book import PriceBook, PricedNode
from gpufleet.ledger.spans import Span
from tests.ledger.test_costs import CARDS, DAY, PODS, START, held, hours, node, price

DOLLAR = 1_000_000
BOOK = PriceBook([price(10 * DOLLAR, 8 * DOLLAR)])


def a_node(name: str, records: NodeRecords | None = None) -> NodeRecords:
    """A node of AWS by that name, on which one pod has one of two cards all day."""
    found = node(held(0, DAY)) if records is None else records
    return msgspec.structs.replace(found, node_uid=f"uid-{name}", provider_id=f"aws:///a/{name}")


def line(resource: str, amount: int, span: Span, **more: bool) -> BillLine:
    return BillLine(BilledResource(resource), span, amount, "EC2", **more)


def cost(
    nodes: tuple[NodeRecords, ...], *lines: BillLine, by: tuple[str, ...], book: PriceBook = BOOK
) -> Cost:
    division = divide(Bill(lines, "USD"), nodes, book)
    return cost_of(Intervals(nodes, PODS), book, DAY, by, division)


def amounts(found: Cost) -> dict[tuple[str | None, ...], int | None]:
    return {one.key: one.amount_micro for one in found.groups}


def test_a_day_by_hand() -> None:
    """10 $ by price, 6 $ as billed in one hour: of 0.8 x 6 the pod has half, and so of the host's 0.2 x 6."""
    bill = line("i-1", 5 * DOLLAR, hours(3, 4)), line("i-1", DOLLAR, hours(3, 4))
    found = amounts(cost((a_node("i-1"),), *bill, by=("state", "bucket")))
    assert found[BILLED, Bucket.UNMEASURED] == found[BILLED, Bucket.IDLE_FREE] == 2_400_000
    assert found[BILLED, HOST] == found[BILLED, HOST_IDLE] == 600_000
    assert (
        sum(amount or 0 for (state, _), amount in found.items() if state == PROVISIONAL) == 23 * 10 * DOLLAR
    )


def test_a_line_of_a_day_goes_to_the_hours_of_all_nodes_by_their_price_and_time() -> None:
    """The second node came at 18:00: it has 6 of 30 hours of equal price."""
    late = node()
    late = a_node("2", msgspec.structs.replace(late, node="late", span=Span(START + 18 * HOUR_US)))
    sets = "azure:///x/virtualMachineScaleSets/gpu/virtualMachines/"
    nodes = tuple(
        msgspec.structs.replace(one, provider_id=f"{sets}{place}")
        for place, one in enumerate((a_node("1"), late))
    )
    found = cost(nodes, line("/X/virtualmachinescalesets/GPU", 90 * DOLLAR, DAY), by=("node",))
    assert amounts(found) == {("n",): 72 * DOLLAR, ("late",): 18 * DOLLAR}


def test_a_correction_is_rows_of_its_own_and_counts_no_hour_twice() -> None:
    bill = line("i-1", 6 * DOLLAR, hours(3, 4)), line("i-1", -DOLLAR, hours(3, 4), is_correction=True)
    found = cost((a_node("i-1"),), *bill, by=("state",))
    assert amounts(found)[CORRECTION,] == -DOLLAR
    assert amounts(found)[BILLED,] == 6 * DOLLAR
    assert sum(one.quantity for one in found.groups) == 48 * 1_000 * HOUR_US


def test_what_is_for_no_node_stays_a_row_of_its_own() -> None:
    bill = (
        line("bucket", 3 * DOLLAR, hours(3, 4)),
        line("i-1", 2 * DOLLAR, hours(-30, -29)),
        line("i-1", DOLLAR, hours(5, 6), is_unused=True),
    )
    found = cost((a_node("i-1"),), *bill, by=("queue", "bucket"))
    # Before the time that is asked for there was no such node, and that hour is not in the answer either.
    assert amounts(found)[UNMATCHED, UNMATCHED] == 3 * DOLLAR
    assert amounts(found)[UNUSED, UNUSED] == DOLLAR
    assert found.total.other_micro == 4 * DOLLAR
    assert found.nodes_micro == 240 * DOLLAR
    assert {one.key: one.amount_micro for one in found.waste}[UNUSED, "EC2"] == DOLLAR


def test_without_a_price_the_bill_is_for_the_gpus_by_time() -> None:
    found = cost((a_node("i-1"),), line("i-1", 7, hours(3, 4)), by=("bucket", "state"), book=PriceBook([]))
    assert amounts(found)[Bucket.UNMEASURED, BILLED] == 4
    assert amounts(found)[Bucket.IDLE_FREE, BILLED] == 3
    assert found.total.amount_micro == 7


def test_a_node_that_no_price_and_no_gpu_makes_ours_is_no_node_of_the_bill() -> None:
    plain = NodeRecords(NODE.node, "uid-cpu", Span(START), PricedNode(), provider_id="aws:///a/i-cpu")
    found = cost((plain,), line("i-cpu", 5, hours(3, 4)), by=("bucket",), book=PriceBook([]))
    assert amounts(found) == {(UNMATCHED,): 5}


NODE = node()


@pytest.mark.parametrize("seed", range(6))
def test_all_rows_add_up_to_the_bill(seed: int) -> None:
    """Whatever is billed for whichever hours, also credits, all of it is in rows, and in no hour twice."""
    draw = random.Random(seed)
    nodes = tuple(
        a_node(f"i-{place}", node(held(place % 4, hours(1, 20), CARDS[place % 2]))) for place in range(3)
    )
    lines = []
    for _ in range(60):
        begin = draw.randrange(24)
        span = hours(begin, draw.randint(begin + 1, 24))
        resource = draw.choice(("i-0", "i-1", "i-2", "i-9"))
        lines.append(line(resource, draw.randint(-50, 10**8), span, is_correction=draw.random() < 0.2))
    book = BOOK if seed % 2 else PriceBook([])
    found = cost(nodes, *lines, by=("state", "pod", "day"), book=book)
    by_state: Counter[str | None] = Counter()
    for one in found.groups:
        by_state[one.key[0]] += one.amount_micro or 0
    for state, is_correction in ((BILLED, False), (CORRECTION, True)):
        assert by_state[state] == sum(one.amount_micro for one in lines if one.is_correction is is_correction)
    assert sum(one.quantity for one in found.groups) == 3 * 48 * 1_000 * HOUR_US
