"""How far CPU or memory lasts: points worked out by hand, and what holds for every curve."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.learn.host_curve import NEED_LEAST, SPAN_MEANS_MAX, TASKS_A_NODE, host_curve
from gpufleet.engine.valuation import CURVE_STEPS, FULL_SHARE, SPAN_MOST, HostCurve

NEEDS = st.lists(
    st.tuples(st.one_of(st.just(0.0), st.floats(1, 2**62)), st.floats(0.001, 16), st.floats(1e-9, 1e6)),
    min_size=1,
    max_size=30,
)


def curve(*requests: tuple[float, float, float]) -> HostCurve:
    """The curve of requests (need, GPUs' worth, weight)."""
    need, worth, weight = (np.array(column) for column in zip(*requests, strict=True))
    return host_curve(need, worth, weight)


def test_one_kind_of_request_is_served_in_proportion() -> None:
    found = curve((6000, 2, 1))  # 3000 per GPU
    assert found.span == 3000
    assert found.shares == tuple(step * FULL_SHARE // CURVE_STEPS for step in range(CURVE_STEPS + 1))


def test_two_kinds_are_drawn_towards_their_mean() -> None:
    # needs 1000 and 3000 of equal weight: mean 2000; drawn to 2000 -+ 1000 / sqrt(8)
    found = curve((1000, 1, 1), (3000, 1, 1))
    assert TASKS_A_NODE == 8
    assert found.span == 2353  # 2000 + 353.55
    # at the middle, 1176.5 are left: E min(1, x / 1646.45) and (x / 2353.55)
    left = 2353 / 2
    by_hand = (left / (2000 - 1000 / math.sqrt(8)) + left / (2000 + 1000 / math.sqrt(8))) / 2
    assert found.shares[CURVE_STEPS // 2] == pytest.approx(by_hand * FULL_SHARE, abs=1)


def test_a_request_weighs_by_the_worth_of_its_gpus() -> None:
    # 8 GPUs at 1000 each against 8 requests of one GPU at 3000 each: as above
    assert curve((8000, 8, 1), (3000, 1, 8)) == curve((1000, 1, 1), (3000, 1, 1))


def test_a_rare_giant_does_not_stretch_the_curve_beyond_its_end() -> None:
    found = curve((1000, 1, 10_000), (10_000_000, 1, 1))
    mean = (10_000 * 1000 + 10_000_000) / 10_001
    assert found.span == int(SPAN_MEANS_MAX * mean)


def test_a_request_without_need_counts_with_a_small_one() -> None:
    # needs 0 and 2000: mean 1000; 0 is drawn to 1000 - 353.55 of it, far above the least of 50
    assert 1000 - 1000 / math.sqrt(8) > NEED_LEAST * 1000
    found = curve((0, 1, 1), (2000, 1, 1))
    assert found.shares[0] == 0


def test_where_nobody_needs_it_no_amount_is_too_little() -> None:
    assert curve((0, 1, 1), (0, 4, 1)) == HostCurve(1, (FULL_SHARE,) * (CURVE_STEPS + 1))


@given(NEEDS)
def test_more_is_never_worse_and_the_numbers_are_in_bounds(
    requests: list[tuple[float, float, float]],
) -> None:
    found = curve(*requests)
    assert 1 <= found.span <= SPAN_MOST
    assert len(found.shares) == CURVE_STEPS + 1
    assert list(found.shares) == sorted(found.shares)
    assert 0 <= found.shares[0] <= found.shares[-1] <= FULL_SHARE


@given(NEEDS)
def test_each_further_part_serves_less_than_the_one_before(
    requests: list[tuple[float, float, float]],
) -> None:
    rises = np.diff(curve(*requests).shares)
    assert (np.diff(rises) <= 2).all()  # each share is rounded by at most a half
