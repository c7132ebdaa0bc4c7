"""Parts make up the whole and are never negative."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from gpufleet.agent.exporter.split import apportioned, capped, proportional

RATIOS = st.floats(0, 1, allow_nan=False)
WEIGHTS = st.dictionaries(st.integers(0, 40), st.floats(0, 1e6, allow_nan=False), max_size=20)
PARTS = st.dictionaries(st.integers(0, 40), RATIOS, max_size=20).map(capped)


@given(st.integers(0, 10**15), PARTS)
@example(1, {0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
@example(10**15, {0: 1.0})
@example(7, {})
def test_all_of_an_amount_is_somebodys_or_nobodys(amount: int, parts: dict[int, float]) -> None:
    given_to, rest = apportioned(amount, parts)
    assert sum(given_to.values()) + rest == amount
    assert rest >= 0
    assert all(share >= 0 for share in given_to.values())
    assert set(given_to) == set(parts)


@given(st.integers(0, 10**9), PARTS)
def test_nobody_is_a_unit_away_from_his_part(amount: int, parts: dict[int, float]) -> None:
    given_to, _ = apportioned(amount, parts)
    assert all(abs(share - amount * parts[key]) <= 1 for key, share in given_to.items())


def test_what_is_left_goes_to_who_lost_most() -> None:
    # 10 mJ by 0.25, 0.35, 0.4: 2.5, 3.5 and 4; the first of the two that lost a half gets it.
    assert apportioned(10, {"a": 0.25, "b": 0.35, "c": 0.4}) == ({"a": 3, "b": 3, "c": 4}, 0)
    assert apportioned(100, {"a": 0.5}) == ({"a": 50}, 50)


@given(st.dictionaries(st.integers(0, 40), st.floats(0, 1e3, allow_nan=False), max_size=20))
def test_capped_parts_are_at_most_all(parts: dict[int, float]) -> None:
    found = capped(parts)
    assert sum(found.values()) <= 1 + 1e-9
    assert all(found[key] <= part + 1e-12 for key, part in parts.items())


@given(RATIOS, WEIGHTS)
def test_the_whole_is_divided_if_anybody_has_a_weight(whole: float, weights: dict[int, float]) -> None:
    found = proportional(whole, weights)
    assert all(part >= 0 for part in found.values())
    expected = whole if sum(weights.values()) > 0 else 0.0
    assert math.isclose(sum(found.values()), expected, rel_tol=1e-9, abs_tol=1e-12)
