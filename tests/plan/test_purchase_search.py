"""The search for bins by sizes: worked by hand, and beside the optimum of an integer program."""

import itertools
from collections.abc import Iterator, Sequence
from random import Random

import highspy
import pytest

from gpufleet.plan.purchase_search import cheapest_bins, cost_of
from gpufleet.plan.small_purchases import Bin, Item

CASES = 120
"""Random problems: together they take two seconds."""

LARGER, MEAN_BEYOND = 20, 0.05
"""Random problems with up to 180 items, and how far beyond the optimum their cost may be in the mean."""

HELD_MAX = 8
"""No bin of these problems holds more of one item."""


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


def problem(seed: int, kinds_max: int = 4, count_max: int = 5) -> tuple[list[Item], list[Bin]]:
    """Pods of 1 to 8 GPUs, some heavy on CPU, and three kinds of nodes with prices that are not in line."""
    random = Random(seed)
    nodes = [(gpus, random.choice((8, 12, 24)) * gpus) for gpus in random.sample((1, 2, 4, 8, 8), 3)]
    bins = [Bin(round(100 * gpus * random.uniform(0.8, 1.3)) + 10) for gpus, _ in nodes]
    items = []
    for _ in range(random.randint(1, kinds_max)):
        gpus, cpus = random.choice((1, 1, 2, 3, 4, 8)), random.choice((1, 4, 16, 40))
        sizes = tuple(
            (gpus / of_gpus, cpus / of_cpus) if gpus <= of_gpus and cpus <= of_cpus else None
            for of_gpus, of_cpus in nodes
        )
        items.append(Item(random.randint(1, count_max), sizes))
    return items, bins


def contents(items: Sequence[Item], kind: int) -> Iterator[tuple[int, ...]]:
    """Every set of items that fits one bin of a kind."""
    for counts in itertools.product(*(range(min(item.count, HELD_MAX) + 1) for item in items)):
        held = [(item.sizes[kind], count) for item, count in zip(items, counts, strict=True) if count]
        sizes = [(size, count) for size, count in held if size is not None]
        if held and len(sizes) == len(held):
            sums = [sum(size[at] * count for size, count in sizes) for at in range(2)]
            if max(sums) <= 1 + 1e-9:
                yield counts


def optimum(items: Sequence[Item], bins: Sequence[Bin]) -> int | None:
    """The least cost, by an integer program over all contents of bins; None where there is no way."""
    program = highspy.Highs()  # type: ignore[no-untyped-call]
    program.setOptionValue("output_flag", False)
    for item in items:
        program.addRow(item.count, highspy.kHighsInf, 0, [], [])
    columns = 0
    for kind, one in enumerate(bins):
        for counts in contents(items, kind):
            used = [row for row, count in enumerate(counts) if count]
            held = [float(counts[row]) for row in used]
            program.addCol(float(one.price), 0.0, highspy.kHighsInf, len(used), used, held)
            program.changeColIntegrality(columns, highspy.HighsVarType.kInteger)
            columns += 1
    program.run()
    if not columns or program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return round(program.getInfo().objective_function_value)


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
