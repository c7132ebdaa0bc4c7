"""The worth of a part of a GPU, against the cutting-stock LP as HiGHS solves it over every pattern.

Dual prices need not be unique, so what is compared is what proves them right: no pattern of a whole
GPU is worth more than the GPU, and the demand at these prices is worth as many GPUs as the LP needs.
"""

from collections.abc import Iterator

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.engine.learn.remainder_value import (
    PIVOTS_MAX,
    Float64Array,
    price_sizes,
    remainder_values,
)

WHOLE = 1000

# sizes of at least 150 milli, so that all patterns (at most six pieces) can be listed
FEW_SIZES = st.lists(st.integers(150, 1000), min_size=1, max_size=6, unique=True).map(sorted)


def values(demand_by_size: dict[int, float]) -> Float64Array:
    """The worth of every remainder for this demand."""
    sizes = sorted(demand_by_size)
    demand = np.array([float(demand_by_size[size]) for size in sizes])
    return remainder_values(np.array(sizes, np.int64), demand)


def patterns(sizes: list[int], room: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut pieces of these sizes out of ``room``, as a count a size."""
    if not sizes:
        yield ()
        return
    for count in range(room // sizes[0] + 1):
        for rest in patterns(sizes[1:], room - count * sizes[0]):
            yield (count, *rest)


def fewest_gpus(demand_by_size: dict[int, float]) -> float:
    """The GPUs, fractions allowed, that the demand needs at least: the LP over all patterns."""
    sizes = sorted(demand_by_size)
    program = highspy.Highs()  # type: ignore[no-untyped-call]
    program.setOptionValue("output_flag", False)
    for size in sizes:
        program.addRow(demand_by_size[size], highspy.kHighsInf, 0, [], [])
    for pattern in patterns(sizes, WHOLE):
        used = [row for row, count in enumerate(pattern) if count]
        counts = [float(pattern[row]) for row in used]
        program.addCol(1.0, 0.0, highspy.kHighsInf, len(used), used, counts)
    program.run()
    assert program.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(program.getInfo().objective_function_value)


def test_where_only_whole_gpus_are_asked_for_a_part_is_worth_nothing() -> None:
    found = values({1000: 5})
    assert found[1000] == 1
    assert not found[:1000].any()


def test_halves() -> None:
    found = values({500: 1})
    assert not found[:500].any()
    assert set(found[500:1000]) == {0.5}


def test_a_size_just_above_a_half_is_worth_a_whole_gpu() -> None:
    found = values({501: 1})
    assert not found[:501].any()
    assert set(found[501:]) == {1.0}


def test_scraps_beside_a_large_size_are_worth_nothing_while_they_abound() -> None:
    # 190 fits beside 810; with few of 190, 810 carries the whole price
    found = values({190: 1, 810: 10})
    assert found[190] == pytest.approx(0, abs=1e-9)
    assert found[810] == pytest.approx(1)


def test_small_sizes_are_worth_a_part_of_their_own_gpus_when_they_abound() -> None:
    # 50 of 190 for one of 810: most GPUs are cut into five of 190
    found = values({190: 50, 810: 1})
    assert found[190] == pytest.approx(1 / 5)
    assert found[810] == pytest.approx(4 / 5)  # beside one of 190, or in place of four


def test_a_third() -> None:
    found = values({350: 1, 1000: 1})
    assert found[350] == pytest.approx(0.5)  # two of 350 fit, three do not
    assert found[699] == pytest.approx(0.5)
    assert found[700] == pytest.approx(1)


@given(FEW_SIZES, st.data())
def test_prices_are_those_of_the_linear_program(sizes: list[int], data: st.DataObject) -> None:
    demand = {size: data.draw(st.floats(0.001, 1000)) for size in sizes}
    found = values(demand)
    for pattern in patterns(sizes, WHOLE):
        worth = sum(count * found[size] for count, size in zip(pattern, sizes, strict=True))
        assert worth <= 1 + 1e-6, f"{pattern} of {sizes} is worth more than the GPU it is cut from"
    worth_of_demand = sum(amount * found[size] for size, amount in demand.items())
    assert worth_of_demand == pytest.approx(fewest_gpus(demand), rel=1e-6)


@given(FEW_SIZES, st.data())
def test_a_remainder_is_worth_the_dearest_pattern_that_fits(sizes: list[int], data: st.DataObject) -> None:
    found = values({size: data.draw(st.floats(0.001, 1000)) for size in sizes})
    room = data.draw(st.integers(0, WHOLE))
    dearest = max(
        sum(count * found[size] for count, size in zip(pattern, sizes, strict=True))
        for pattern in patterns(sizes, room)
    )
    assert found[room] == pytest.approx(dearest, abs=1e-6)


MANY_SIZES = st.dictionaries(st.integers(1, 1000), st.floats(1e-12, 1e12), min_size=1, max_size=64)


@settings(max_examples=40)
@given(MANY_SIZES)
def test_more_is_worth_no_less_and_two_parts_no_more_than_both_together(demand: dict[int, float]) -> None:
    found = values(demand)
    assert found[0] == 0
    assert found[WHOLE] == 1
    assert (np.diff(found) >= 0).all()
    for part in range(1, WHOLE // 2 + 1):
        rest = np.arange(part, WHOLE - part + 1)
        assert (found[part] + found[rest] <= found[part + rest] + 1e-9).all()


@settings(max_examples=40)
@given(MANY_SIZES)
def test_no_mix_of_sizes_needs_all_the_pivots(demand: dict[int, float]) -> None:
    sizes = np.array(sorted(demand), np.int64)
    shares = np.array([demand[size] for size in sorted(demand)])
    count = len(sizes)
    best, last = np.zeros(WHOLE + 1), np.zeros(WHOLE + 1, np.int64)
    room = np.zeros((count, count)), np.zeros((4, count))
    assert price_sizes(sizes, shares / shares.sum(), *room, best, last) < PIVOTS_MAX
    assert best[WHOLE] == pytest.approx(1)


def test_equal_demand_for_every_tenth_size_ends() -> None:
    found = values(dict.fromkeys(range(10, 650, 10), 1.0))
    assert len(range(10, 650, 10)) == 64
    assert np.isfinite(found).all()
    assert found[WHOLE] == 1
