"""The search for bins by sizes: worked by hand, and beside the optimum of an integer program."""

import pytest

from gpufleet.plan.purchase_search import cheapest_bins, cost_of
from gpufleet.plan.small_purchases import Bin, Item
from tests.plan.small_problems import optimum, problem

CASES = 120
"""Random problems: together they take two seconds."""

LARGER, MEAN_BEYOND = 20, 0.05
"""Random problems with up to 180 items, and how far beyond the optimum their cost may be in the mean."""


def test_nothing_needs_no_bin() -> None:
    assert cheapest_bins([], [Bin(5)]) == (0,)


def test_items_of_a_bins_size_need_a_bin_each() -> None:
    assert cheapest_bins([Item(4, ((1.0,),))], [Bin(5)]) == (4,)


def test_small_bins_are_taken_where_the_large_one_would_stay_half_empty() -> None:
    """One GPU costs 3 alone and 20 by eights: eight and two of them cost 26, not 40."""
    assert cheapest_bins([Item(10, ((1.0,), (1 / 8,)))], [Bin(3), Bin(20)]) == (2, 1)


def test_a_cheap_bin_that_is_scarce_is_taken_as_far_as_it_goes() -> None:
    assert cheapest_bins([Item(5, ((1.0,), (1.0,)))], [Bin(1, most=2), Bin(4)]) == (2, 3)


def test_an_item_goes_only_where_it_may() -> None:
    assert cheapest_bins([Item(2, (None, (0.5,)))], [Bin(1), Bin(9)]) == (0, 1)


def test_what_fits_nowhere_has_no_answer() -> None:
    assert cheapest_bins([Item(1, (None,))], [Bin(1)]) is None
    assert cheapest_bins([Item(1, ((1.5,),))], [Bin(1)]) is None
    assert cheapest_bins([Item(3, ((1.0,),))], [Bin(1, most=2)]) is None


def test_every_dimension_limits() -> None:
    """GPUs for eight, but CPU for four."""
    assert cheapest_bins([Item(8, ((1 / 8, 1 / 4),))], [Bin(5)]) == (2,)


@pytest.mark.parametrize("tens", range(CASES // 10))
def test_few_items_cost_what_the_optimum_costs(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        items, bins = problem(seed)
        found = cheapest_bins(items, bins)
        assert (None if found is None else cost_of(found, bins)) == optimum(items, bins), seed


def test_many_items_cost_little_more_than_the_optimum() -> None:
    beyond = []
    for seed in range(100, 100 + LARGER):
        items, bins = problem(seed, kinds_max=6, count_max=30)
        found, least = cheapest_bins(items, bins), optimum(items, bins)
        assert (found is None) == (least is None), seed
        if found is not None and least is not None:
            assert cost_of(found, bins) >= least, seed
            beyond.append(cost_of(found, bins) / least - 1)
    assert len(beyond) > LARGER // 2
    assert sum(beyond) / len(beyond) <= MEAN_BEYOND


def test_ten_thousand_items_are_one_step_for_each_kind_of_content() -> None:
    """By hand: 1,250 bins of eight GPUs hold 10,000 pods of one."""
    assert cheapest_bins([Item(10_000, ((1 / 8,),))], [Bin(20)]) == (1_250,)
