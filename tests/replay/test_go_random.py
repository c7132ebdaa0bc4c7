"""Go's random numbers: golden values come from programs run with Go's own ``math/rand``."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.replay.go_random import LENGTH, TAP, GoRandom, state_after

seeds = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("seed", "first", "second"),
    [
        (1, 5577006791947779410, 8674665223082153551),
        (42, 12663951391086054483, 9832119173398632219),
        (0, 8717895732742165505, 2259404117704393152),
        (-7, 9970479060831305739, 16308104968817794534),
    ],
)
def test_first_numbers(seed: int, first: int, second: int) -> None:
    source = GoRandom(seed)
    assert [source.uint64(), source.uint64()] == [first, second]


@pytest.mark.parametrize(("seed", "number"), [(1, 17679100649843749764), (42, 7855488943752453772)])
def test_ten_thousandth_number(seed: int, number: int) -> None:
    source = GoRandom(seed)
    assert [source.uint64() for _ in range(10_000)][-1] == number


@pytest.mark.parametrize(
    ("seed", "numbers"),
    [(1, [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]), (42, [5, 87, 68, 50, 23, 45, 57, 76, 28, 43])],
)
def test_first_numbers_below_a_hundred(seed: int, numbers: list[int]) -> None:
    source = GoRandom(seed)
    assert [source.below(100) for _ in numbers] == numbers


def test_every_kind_of_draw_in_one_stream() -> None:
    source = GoRandom(42)
    assert [source.uint64(), source.uint64()] == [12663951391086054483, 9832119173398632219]
    assert source.int63() == 5571782338101878760
    assert source.int31() == 448434750
    assert source.uint32() == 188198846
    assert [source.below(100), source.below(100), source.below(64)] == [45, 57, 8]
    assert source.below(2**40 + 1) == 484804530921
    assert source.float64() == 0.6463763506057989
    assert source.permutation(8) == [3, 7, 4, 6, 0, 2, 5, 1]
    items = list(range(8))
    source.shuffle(items)
    assert items == [2, 3, 5, 4, 1, 0, 6, 7]
    assert source.uint64() == 9610549860140450017


@given(seed=seeds)
def test_each_number_is_the_sum_of_two_before(seed: int) -> None:
    source = GoRandom(seed)
    numbers = [source.uint64() for _ in range(LENGTH + 5)]
    for index in range(LENGTH, len(numbers)):
        assert numbers[index] == (numbers[index - LENGTH] + numbers[index - TAP]) % 2**64


@given(seed=seeds)
def test_seeds_count_modulo_the_mersenne_prime(seed: int) -> None:
    assert GoRandom(seed).uint64() == GoRandom(seed % (2**31 - 1)).uint64()


@given(draws=st.integers(0, 3_000), first=st.integers(0, 2**64 - 1))
def test_a_jump_lands_where_single_steps_do(draws: int, first: int) -> None:
    numbers = [first * (index + 1) % 2**64 for index in range(LENGTH)]
    jumped = state_after(draws, np.array(numbers, np.uint64)).tolist()
    for _ in range(draws):
        numbers.append((numbers[-LENGTH] + numbers[-TAP]) % 2**64)
    assert jumped == numbers[-LENGTH:]


@given(seed=seeds, bound=st.integers(1, 2**63 - 1))
def test_numbers_stay_below_their_bound(seed: int, bound: int) -> None:
    source = GoRandom(seed)
    assert all(0 <= source.below(bound) < bound for _ in range(20))


@pytest.mark.parametrize("bound", [0, -1, 2**63])
def test_a_bound_without_numbers_below_it_is_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        GoRandom(1).below(bound)


@given(seed=seeds, size=st.integers(0, 300))
def test_orders_keep_every_item(seed: int, size: int) -> None:
    source = GoRandom(seed)
    items = list(range(size))
    source.shuffle(items)
    assert sorted(items) == sorted(source.permutation(size)) == list(range(size))


def test_draws_that_favour_small_numbers_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2^31 is two more than a multiple of three: the two highest draws would favour 0 and 1
    source = GoRandom(1)
    draws = iter([2**31 - 1, 2**31 - 2, 2**31 - 3])
    monkeypatch.setattr(source, "int31", lambda: next(draws))
    assert source.below(3) == 2


def test_shuffles_repeat_draws_that_favour_some_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    # of three items: a draw of 0 leaves a remainder that is too small, one of 2^31 does not
    source = GoRandom(1)
    draws = iter([0, 2**31, 2**31])
    monkeypatch.setattr(source, "uint32", lambda: next(draws))
    items = ["a", "b", "c"]
    source.shuffle(items)
    assert items == ["a", "c", "b"]


def test_a_fraction_is_never_one(monkeypatch: pytest.MonkeyPatch) -> None:
    source = GoRandom(1)
    draws = iter([2**63 - 1, 2**62])
    monkeypatch.setattr(source, "int63", lambda: next(draws))
    assert source.float64() == 0.5
