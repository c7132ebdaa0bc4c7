"""Prices with dates: one at each instant, the most specific one, and gaps that are no price of 0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.ledger.price_book import Price, PriceBook, PricedNode, PriceScope, PriceSpan, PriceUnit
from gpufleet.model.model_errors import InputError

NODE = PricedNode(
    provider="aws",
    region="eu-central-1",
    zone="eu-central-1a",
    instance_type="p5.48xlarge",
    gpu_model="H100-80GB",
    capacity_type="spot",
    labels={"team": "research"},
)


def price(name: str, amount: int = 100, begin: int = 0, end: int | None = None, **scope: object) -> Price:
    """A price of nodes of which half is for their GPUs."""
    return scoped(PriceScope(**scope), name, amount, begin, end)  # type: ignore[arg-type]


def scoped(scope: PriceScope, name: str, amount: int, begin: int, end: int | None) -> Price:
    return Price(name, scope, PriceUnit.NODE_HOUR, amount, "USD", begin, end, gpu_micro=amount // 2)


def ids(book: PriceBook, begin: int, end: int, node: PricedNode = NODE) -> list[tuple[int, int, str]]:
    return [
        (span.from_us, span.until_us, span.price.id if span.price else "")
        for span in book.spans(node, begin, end)
    ]


def test_a_change_of_price_is_seen_from_its_moment_on() -> None:
    book = PriceBook([price("old", end=50), price("new", begin=50)])
    assert ids(book, 0, 100) == [(0, 50, "old"), (50, 100, "new")]
    assert ids(book, 60, 70) == [(60, 70, "new")]


def test_a_gap_is_told_as_one() -> None:
    book = PriceBook([price("before", end=20), price("after", begin=30, end=90)])
    assert ids(book, 0, 100) == [(0, 20, "before"), (20, 30, ""), (30, 90, "after"), (90, 100, "")]
    assert PriceBook([]).spans(NODE, 5, 8) == (PriceSpan(5, 8, None),)


def test_the_most_specific_price_counts_while_it_is_good() -> None:
    book = PriceBook(
        [
            price("any"),
            price("type", instance_type="p5.48xlarge"),
            price("spot", begin=10, end=40, instance_type="p5.48xlarge", capacity_type="spot"),
            price("team", begin=20, end=30, labels=(("team", "research"),)),
            price("elsewhere", region="us-east-1", instance_type="p5.48xlarge", capacity_type="spot"),
        ]
    )
    assert ids(book, 0, 50) == [
        (0, 10, "type"),
        (10, 20, "spot"),
        (20, 30, "team"),
        (30, 40, "spot"),
        (40, 50, "type"),
    ]
    assert ids(book, 0, 50, PricedNode()) == [(0, 50, "any")]


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ([price("a", -1)], "price a, amount: a negative price, found -1; expected 0 or more"),
        ([price("a", begin=5, end=5)], "price a, validTo: the price ends before it begins"),
        ([price("a"), price("a", begin=9, zone="z")], "id: two prices have one id, found 'a'"),
        ([price("a"), price("b", begin=9)], "price b, validFrom: two prices at one time: price a is still"),
        ([price("a", end=10), price("b", begin=9)], "price b, validFrom: two prices at one time"),
        (
            [price("a"), Price("b", PriceScope(zone="z"), PriceUnit.GPU_HOUR, 1, "EUR", 0)],
            "price b, currency: two currencies in one book, found 'EUR'; expected USD, as in price a",
        ),
        ([Price("a", PriceScope(), PriceUnit.NODE_HOUR, 1, "USD", 0)], "gpuAmount: the GPU part is missing"),
        (
            [Price("a", PriceScope(), PriceUnit.NODE_HOUR, 10, "USD", 0, gpu_micro=11)],
            "gpuAmount: no part of the price, found 11; expected from 0 to the node's 10",
        ),
        (
            [Price("a", PriceScope(), PriceUnit.GPU_HOUR, 10, "USD", 0, gpu_micro=10)],
            "gpuAmount: a part of a GPU's price, found 10",
        ),
    ],
)
def test_rows_that_contradict_are_refused_by_name(prices: list[Price], words: str) -> None:
    with pytest.raises(InputError) as refused:
        PriceBook(prices)
    assert words in str(refused.value)


SCOPES = (PriceScope(), PriceScope(zone="eu-central-1a"), PriceScope(gpu_model="H100-80GB", region="x"))


@given(
    st.lists(st.tuples(st.sampled_from(SCOPES), st.integers(0, 40), st.integers(1, 20)), max_size=8),
    st.randoms(use_true_random=False),
)
def test_each_instant_has_one_price_whatever_the_order_of_the_rows(
    drawn: list[tuple[PriceScope, int, int]], chance: object
) -> None:
    """The expected price of an instant is worked out from the rows alone."""
    prices: list[Price] = []
    for scope, begin, length in drawn:
        end = begin + length
        if all(one.scope != scope or one.until_us <= begin or one.from_us >= end for one in prices):  # type: ignore[operator]
            prices.append(scoped(scope, f"{len(prices)}", 100, begin, end))
    shuffled = list(prices)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    spans = PriceBook(shuffled).spans(NODE, 0, 60)
    assert [span.from_us for span in spans] == [0, *(span.until_us for span in spans[:-1])]
    assert spans[-1].until_us == 60
    for span in spans:
        for at in range(span.from_us, span.until_us):
            good = [
                one for one in prices if one.from_us <= at < (one.until_us or 0) and one.scope != SCOPES[2]
            ]
            narrow = [one for one in good if one.scope == SCOPES[1]]
            assert span.price == next(iter(narrow or good), None)
