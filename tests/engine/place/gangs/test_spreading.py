"""How many members go into which domain, by hand and by every way there is."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.place.gangs.spreading import balanced, filled, in_slices

ROOMS = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("room", "wanted", "expected"),
    [
        # One domain holds all: the smallest that does.
        ([8, 4, 6], 4, [(1, 4)]),
        # None does: the largest, and then the smallest that holds the rest.
        ([8, 4, 6], 10, [(0, 8), (1, 2)]),
        ([8, 4, 6], 13, [(0, 8), (2, 5)]),
        ([8, 4, 6], 18, [(0, 8), (2, 6), (1, 4)]),
        ([8, 4, 6], 19, []),
    ],
)
def test_filling_leaves_large_domains_whole(
    room: list[int], wanted: int, expected: list[tuple[int, int]]
) -> None:
    assert filled(room, wanted) == expected


@pytest.mark.parametrize(
    ("room", "wanted", "expected"),
    [
        ([8, 8, 8], 12, {0: 6, 1: 6}),
        ([8, 8, 8], 17, {0: 5, 1: 6, 2: 6}),
        # A small domain is full before the others are even.
        ([2, 8, 8], 18, {0: 2, 1: 8, 2: 8}),
        ([9, 9], 8, {0: 8}),
    ],
)
def test_balance_is_even_over_as_few_as_can_hold_it(
    room: list[int], wanted: int, expected: dict[int, int]
) -> None:
    assert dict(balanced(room, wanted)) == expected


@pytest.mark.parametrize(
    ("room", "wanted", "size", "expected"),
    [
        # Two slices of four: 7 and 5 hold one each, although 12 pods would fit.
        ([7, 5], 8, 4, {0: 4, 1: 4}),
        ([7, 5], 12, 4, {}),
        ([8, 5], 12, 4, {0: 8, 1: 4}),
        # What is left over joins a domain that is used already, or has one for itself.
        ([7, 5], 7, 4, {0: 7}),
        ([5, 5], 7, 4, {0: 4, 1: 3}),
        ([9, 5], 9, 4, {0: 9}),
    ],
)
def test_slices_stay_together(room: list[int], wanted: int, size: int, expected: dict[int, int]) -> None:
    assert dict(in_slices(room, wanted, size, evenly=False)) == expected


@given(ROOMS, st.integers(1, 40))
def test_as_few_domains_as_any_choice_would_need(room: list[int], wanted: int) -> None:
    fewest = next(
        (
            count
            for count in range(1, len(room) + 1)
            if any(sum(chosen) >= wanted for chosen in combinations(room, count))
        ),
        None,
    )
    for shares in (filled(room, wanted), balanced(room, wanted)):
        if fewest is None:
            assert shares == []
            continue
        assert sum(count for _, count in shares) == wanted
        assert all(0 < count <= room[place] for place, count in shares)
        assert len(shares) == len(dict(shares)) <= fewest
    assert len(filled(room, wanted)) == (fewest or 0)


@given(ROOMS, st.integers(1, 40))
def test_nobody_has_two_more_than_one_that_has_room(room: list[int], wanted: int) -> None:
    shares = balanced(room, wanted)
    for place, count in shares:
        assert all(other <= count + 1 for _, other in shares if room[place] > count)


@given(ROOMS, st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_slices_are_whole_but_for_one(room: list[int], wanted: int, size: int, evenly: bool) -> None:
    shares = in_slices(room, wanted, size, evenly=evenly)
    if shares:
        assert sum(count for _, count in shares) == wanted
        assert all(0 < count <= room[place] for place, count in shares)
        assert sum(1 for _, count in shares if count % size) <= 1
    else:
        assert sum(count // size for count in room) < -(-wanted // size)
