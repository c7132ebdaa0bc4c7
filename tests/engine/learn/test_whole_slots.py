"""Where room for several GPUs becomes scarce: chances against exact sums, bonuses by hand."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.learn.mix import PodMixRequest
from gpufleet.engine.learn.whole_slots import (
    BONUS_STEPS,
    INSURED_BONUS,
    NEAR,
    SAFETY,
    SLOT_FALL,
    FreeHosts,
    Need,
    needs_of,
    poisson_tail,
    slot_kind,
    whole_slots,
)
from gpufleet.engine.valuation import NEVER, ONE_GPU, SLOT_LEVELS

REQUESTS = st.lists(
    st.tuples(st.integers(0, 2**62), st.integers(0, 2**42), st.floats(0, 1e6)), min_size=1, max_size=60
)


def hosts(*rows: tuple[int, int, int]) -> FreeHosts:
    """Hosts with so many free GPUs, CPU milli and MiB."""
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return FreeHosts(columns[0], columns[1], columns[2])


def asks(gpus: int, cpu_milli: int, memory_mib: int, gpu_milli: int = 1000) -> PodMixRequest:
    """A request for several GPUs."""
    return PodMixRequest(cpu_milli, memory_mib, gpus, gpu_milli, ())


def exact_tail(expected: float, count: int) -> float:
    """The chance that at least ``count`` come, by exact fractions but for one exponential."""
    rate = Fraction(expected)
    below = sum(rate**number / math.factorial(number) for number in range(count))
    return 1 - math.exp(-expected) * float(below)


@given(st.floats(0.001, 40), st.integers(0, 80))
def test_chance_is_the_sum_of_its_terms(expected: float, count: int) -> None:
    assert poisson_tail(expected, count) == pytest.approx(exact_tail(expected, count), abs=1e-9)


def test_chances_at_the_ends() -> None:
    assert poisson_tail(0, 0) == 1
    assert poisson_tail(0, 1) == 0
    assert poisson_tail(3, 0) == 1
    assert poisson_tail(1, 1) == pytest.approx(1 - math.exp(-1))
    assert poisson_tail(2, 40_000) == 0
    assert poisson_tail(1e300, 40_000) == 1


@given(st.floats(150, 200))
def test_the_bell_takes_over_smoothly_where_many_are_expected(expected: float) -> None:
    for count in (100, 150, 180, 200, 220, 260):
        bell = 0.5 * math.erfc((count - 0.5 - expected) / math.sqrt(2 * expected))
        assert poisson_tail(expected, count) == pytest.approx(bell, abs=0.02)


def test_levels_are_the_needs_in_order_each_counting_those_above() -> None:
    mix = [(asks(4, 32_000, 100), 2.0), (asks(4, 8000, 300), 1.0), (asks(2, 1, 1), 50.0)]
    # memory of the second level is at least that of the first
    assert needs_of(mix, 4) == [Need(8000, 300, 3.0), Need(32_000, 300, 2.0)]
    assert needs_of(mix, 8) == []


def test_shares_of_several_gpus_need_no_slot() -> None:
    assert needs_of([(asks(2, 8000, 300, gpu_milli=500), 1.0)], 2) == []


def test_too_many_levels_join_with_their_nearest_neighbour() -> None:
    cpu = [1000, 10_000, 20_000, 30_000, 30_500, 40_000, 50_000, 60_000, 70_000]
    found = needs_of([(asks(8, milli, 0), 1.0) for milli in cpu], 8)
    assert [need.cpu_milli for need in found] == [milli for milli in cpu if milli != 30_000]
    assert [need.expected for need in found] == [9, 8, 7, 6, 4, 3, 2, 1]


@given(REQUESTS)
def test_at_most_eight_levels_and_nobody_is_lost(drawn: list[tuple[int, int, float]]) -> None:
    found = needs_of([(asks(4, cpu, memory), expected) for cpu, memory, expected in drawn], 4)
    assert 1 <= len(found) <= SLOT_LEVELS
    assert found[0].expected == pytest.approx(sum(expected for _, _, expected in drawn))
    for lower, higher in pairwise(found):
        assert lower.cpu_milli <= higher.cpu_milli
        assert lower.memory_mib <= higher.memory_mib
        assert lower.expected >= higher.expected
    assert found[-1].cpu_milli == min(NEVER, max(cpu for cpu, _, _ in drawn))
    assert found[-1].memory_mib == min(NEVER, max(memory for _, memory, _ in drawn))


def test_bonus_is_the_chance_that_the_slots_run_out() -> None:
    free = hosts((8, 64_000, 1000), (4, 64_000, 1000), (3, 64_000, 1000), (8, 1000, 1000))
    found = slot_kind(4, [Need(16_000, 100, 2.0)], free, 1.0)
    # three slots of four on hosts with enough CPU; at least three of two expected: 1 - 5 exp(-2)
    chance = 1 - 5 * math.exp(-2)
    assert found.levels[0].bonus == pytest.approx(4 * ONE_GPU * chance, abs=4 * ONE_GPU / BONUS_STEPS)
    assert found.levels[0].low == int(min(3 * (1 - SLOT_FALL), NEAR * 2.0 / SAFETY))


def test_slots_without_end_are_worth_nothing_and_the_last_ones_everything() -> None:
    need = Need(1000, 100, 5.0)
    assert slot_kind(2, [need], hosts(*[(8, 64_000, 1000)] * 100), 1.0).levels[0].bonus == 0
    assert slot_kind(2, [need], hosts(), 1.0).levels[0].bonus == 2 * ONE_GPU
    assert slot_kind(2, [need], hosts((2, 64_000, 1000)), 1.0).levels[0].low == -1  # one is no store


@given(REQUESTS, st.lists(st.tuples(st.integers(0, 8), st.integers(-5, 2**62), st.integers(-5, 2**42))))
def test_a_slot_that_serves_more_is_worth_no_less(
    drawn: list[tuple[int, int, float]], rows: list[tuple[int, int, int]]
) -> None:
    needs = needs_of([(asks(4, cpu, memory), expected) for cpu, memory, expected in drawn], 4)
    bonuses = [level.bonus for level in slot_kind(4, needs, hosts(*rows), 1.0).levels]
    assert bonuses == sorted(bonuses)
    assert bonuses[-1] <= 4 * ONE_GPU


def test_some_slots_of_eight_are_insured_though_nobody_asked() -> None:
    mix = [(asks(1, 4000, 2000), 0.5), (asks(1, 8000, 6000), 0.5)]
    two, four, eight, insured = whole_slots(mix, 100.0, 16.0, hosts(*[(8, 96_000, 384_000)] * 2))
    assert (two.levels, four.levels, eight.levels) == ((), (), ())
    [level] = insured.levels
    assert insured.gpus == 8
    assert (level.cpu_milli, level.memory_mib) == (8 * 6000, 8 * 4000)  # the mean a GPU, eight times
    # a quarter of 16 GPUs is half an 8-GPU task, counted 1.5 times; two slots are left
    chance = 1 - math.exp(-0.75) * 1.75
    assert level.bonus == pytest.approx(INSURED_BONUS * 8 * ONE_GPU * chance, rel=0.01)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**62),
            st.integers(0, 2**42),
            st.sampled_from((1, 2, 3, 4, 8, 16)),
            st.sampled_from((1, 500, 1000)),
            st.floats(1e-12, 1),
        ),
        min_size=1,
        max_size=20,
    ),
    st.floats(0, 1e15),
    st.floats(0, 1e6),
)
def test_every_number_fits_into_the_tables(
    drawn: list[tuple[int, int, int, int, float]], arrivals: float, free_worth: float
) -> None:
    mix = [(asks(gpus, cpu, memory, milli), part) for cpu, memory, gpus, milli, part in drawn]
    for kind in whole_slots(mix, arrivals, free_worth, hosts((8, 96_000, 384_000), (0, -1, -1))):
        assert len(kind.levels) <= SLOT_LEVELS
        for level in kind.levels:
            assert 0 <= level.cpu_milli <= NEVER
            assert 0 <= level.memory_mib <= NEVER
            assert 0 <= level.bonus <= kind.gpus * ONE_GPU
            assert -1 <= level.low <= NEVER
