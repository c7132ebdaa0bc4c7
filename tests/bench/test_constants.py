"""The benchmark of the policy's constants moves constants that exist, and puts them back.

A constant that was renamed used to end the benchmark after its first three minutes.
"""

import sys

import pytest

from bench.constants import ABOUT_MODELS, CONSTANTS, Move, in_place, moved, moves


@pytest.mark.parametrize("move", [*moves(CONSTANTS), *moves(ABOUT_MODELS)], ids=str)
def test_each_constant_is_moved_and_put_back(move: Move) -> None:
    assert move.module is not None
    home = sys.modules[move.module]
    before = getattr(home, move.constant)

    with in_place(move):
        inside = getattr(home, move.constant)
    after = getattr(home, move.constant)

    # the kernels have this one compiled in, so the worths against it are scaled instead
    expected = before if move.constant == "EMPTY_GPU_COST" else moved(move.constant, before, move.factor)
    assert (inside, after) == (expected, before)
    assert expected != before or move.constant == "EMPTY_GPU_COST"


def test_whole_numbers_stay_whole_and_positive() -> None:
    assert moved("SIZES_MAX", 1, 0.5) == 1
    assert moved("SIZES_MAX", 3, 1.5) == 4
    assert moved("NEAR", 0.5, 1.5) == pytest.approx(0.75)


def test_a_growth_moves_by_its_part_above_one() -> None:
    assert moved("ARRIVALS_GROWTH", 1.2, 0.5) == pytest.approx(1.1)
