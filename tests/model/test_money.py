"""Amounts are divided without a remainder, as Hamilton's method divides seats."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.model_errors import InternalError
from gpufleet.model.money import apportion, rounded

AMOUNTS = st.integers(-(10**15), 10**15)
WEIGHTS = st.lists(st.integers(0, 10**24), min_size=1, max_size=12).filter(any)


def test_the_seats_of_the_house_by_hamiltons_bill() -> None:
    """120 seats by the census of 1790, as the bill had them that President Washington vetoed in 1792."""
    populations = {
        "Virginia": (630_560, 21),
        "Massachusetts": (475_327, 16),
        "Pennsylvania": (432_879, 14),
        "North Carolina": (353_523, 12),
        "New York": (331_589, 11),
        "Maryland": (278_514, 9),
        "Connecticut": (236_841, 8),
        "South Carolina": (206_236, 7),
        "New Jersey": (179_570, 6),
        "New Hampshire": (141_822, 5),
        "Vermont": (85_533, 3),
        "Georgia": (70_835, 2),
        "Kentucky": (68_705, 2),
        "Rhode Island": (68_446, 2),
        "Delaware": (55_540, 2),
    }
    people = [count for count, _ in populations.values()]
    assert apportion(120, people) == [seats for _, seats in populations.values()]


@given(AMOUNTS, WEIGHTS)
def test_parts_add_up_and_each_is_its_exact_part_up_to_one_unit(amount: int, weights: list[int]) -> None:
    parts = apportion(amount, weights)
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(amount * weight, sum(weights))) < 1


@given(AMOUNTS, WEIGHTS)
def test_a_correction_is_divided_as_what_it_corrects(amount: int, weights: list[int]) -> None:
    assert apportion(-amount, weights) == [-part for part in apportion(amount, weights)]


def test_of_equal_remainders_the_first_comes_first() -> None:
    assert apportion(10, [1, 1, 1]) == [4, 3, 3]
    assert apportion(1, [0, 5, 5]) == [0, 1, 0]


def test_an_amount_has_to_go_somewhere() -> None:
    assert apportion(0, [0, 0]) == [0, 0]
    with pytest.raises(InternalError, match="has no weight"):
        apportion(1, [0, 0])
    with pytest.raises(InternalError, match="negative weight"):
        apportion(1, [2, -1])


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [(1, 2, 0), (3, 2, 2), (5, 2, 2), (7, 4, 2), (5, 4, 1), (0, 3, 0)],
)
def test_halves_go_to_the_even_number(numerator: int, denominator: int, expected: int) -> None:
    assert rounded(numerator, denominator) == expected
