"""The random numbers of Go's ``math/rand`` under a fixed seed, number for number.

The published experiments on the openb trace drew their shuffles from it; drawing the same ones makes
our runs comparable with theirs seed by seed instead of as means over many. ``arrivals`` asks it for
the order of tasks and nodes.

The source is an additive lagged Fibonacci generator: each number is the sum, modulo 2^64, of those
drawn 607 and 273 draws before. A seed fills the first 607 from a small congruential generator, and
mixes in a fixed table: the state that the same recurrence reaches from seed 1 after 7.8e12 draws. The
recurrence is linear, so that state is computed here in some milliseconds, by raising x to that power
modulo the characteristic polynomial x^607 = x^334 + 1, instead of being carried along.
"""

import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

# The two lags of the generator, as above.
LENGTH = 607
TAP = 273
FIRST_FEED = LENGTH - TAP
DRAWS_BEFORE_THE_TABLE = 7_800_000_000_000
"""The position in seed 1's stream of the table that Go's source calls rngCooked."""

# Lehmer's generator, as Park and Miller revised it
MULTIPLIER = 48_271
MODULUS = 2**31 - 1
SEED_INSTEAD_OF_ZERO = 89_482_311
"""Go's choice: the seed 0 would give zeros for ever."""

WARM_UP = 20
"""Go drops this many of Lehmer's numbers before the first word."""

# Go's numbers are cut to so many bits, and its sums wrap at 64.
LOW_31_BITS = 2**31 - 1
LOW_32_BITS = 2**32 - 1
LOW_63_BITS = 2**63 - 1
LOW_64_BITS = 2**64 - 1

Words = NDArray[np.uint64]
Item = TypeVar("Item")


class GoRandom:
    """One seeded stream; every method draws exactly what its namesake in Go draws."""

    def __init__(self, seed: int) -> None:
        words = zip(seed_words(seed, 20), table(), strict=True)
        self._numbers = [word ^ mixed for word, mixed in words]
        self._tap = 0
        self._feed = FIRST_FEED

    def uint64(self) -> int:
        """64 random bits: ``Uint64``."""
        self._tap = (self._tap or LENGTH) - 1
        self._feed = (self._feed or LENGTH) - 1
        number = (self._numbers[self._feed] + self._numbers[self._tap]) & LOW_64_BITS
        self._numbers[self._feed] = number
        return number

    def int63(self) -> int:
        """63 random bits: ``Int63``, and ``Int`` on a machine with words of 64 bits."""
        return self.uint64() & LOW_63_BITS

    def uint32(self) -> int:
        """32 random bits: ``Uint32``."""
        return self.int63() >> 31

    def int31(self) -> int:
        """31 random bits: ``Int31``."""
        return self.int63() >> 32

    def float64(self) -> float:
        """A number in [0, 1): ``Float64``, which draws again where rounding would give 1."""
        while True:
            number = self.int63() / 2**63
            if number < 1:
                return number

    def below(self, bound: int) -> int:
        """A whole number in 0..bound-1: ``Intn``, which rejects what would favour small numbers."""
        if not 0 < bound <= LOW_63_BITS:
            raise ValueError(f"the bound {bound} is not in 1..2^63-1")
        if bound <= LOW_31_BITS:
            return self._rejecting(bound, self.int31, 2**31)
        return self._rejecting(bound, self.int63, 2**63)

    @staticmethod
    def _rejecting(bound: int, draw: Callable[[], int], size: int) -> int:
        """The rest of a draw from 0..size-1, where only whole multiples of the bound count."""
        number = draw()
        while number >= size - size % bound:
            number = draw()
        return number % bound

    def _scaled_below(self, bound: int) -> int:
        """A whole number in 0..bound-1 by Lemire's multiplication, which only ``Shuffle`` uses."""
        product = self.uint32() * bound
        while product & LOW_32_BITS < 2**32 % bound:
            product = self.uint32() * bound
        return product >> 32

    def permutation(self, size: int) -> list[int]:
        """The numbers 0..size-1 in random order: ``Perm``."""
        order = [0] * size
        for index in range(size):
            other = self.below(index + 1)
            order[index] = order[other]
            order[other] = index
        return order

    def shuffle(self, items: list[Item]) -> None:
        """Random order, in place: ``Shuffle`` (of fewer than 2^31 items)."""
        for last in range(len(items) - 1, 0, -1):
            other = self._scaled_below(last + 1)
            items[last], items[other] = items[other], items[last]


def seed_words(seed: int, shift: int) -> Iterator[int]:
    """The 607 words that a seed gives: each three of Lehmer's numbers, ``shift`` bits apart."""
    number = seed % MODULUS or SEED_INSTEAD_OF_ZERO
    for _ in range(WARM_UP):
        number = number * MULTIPLIER % MODULUS
    for _ in range(LENGTH):
        word = 0
        for _ in range(3):
            number = number * MULTIPLIER % MODULUS
            word = (word << shift) ^ number
        yield word & LOW_64_BITS


@functools.cache
def table() -> tuple[int, ...]:
    """The generator's state 7.8e12 draws after seed 1, by place in its ring."""
    # the ring is written downwards from the first feed: oldest number first
    places = (FIRST_FEED - 1 - np.arange(LENGTH)) % LENGTH
    ring = np.fromiter(seed_words(1, 10), np.uint64, LENGTH)
    later = np.empty(LENGTH, np.uint64)
    later[(places - DRAWS_BEFORE_THE_TABLE) % LENGTH] = state_after(DRAWS_BEFORE_THE_TABLE, ring[places])
    return tuple(later.tolist())


def state_after(draws: int, numbers: Words) -> Words:
    """The 607 newest numbers, oldest first, ``draws`` draws after the given ones."""
    power = power_of_x(draws)
    known = numbers.tolist()
    for _ in range(LENGTH - 1):
        known.append((known[-LENGTH] + known[-TAP]) & LOW_64_BITS)
    return np.correlate(np.array(known, np.uint64), power, "valid")


def power_of_x(exponent: int) -> Words:
    """x^exponent modulo x^607 - x^334 - 1: 607 coefficients modulo 2^64, lowest first."""
    power = np.zeros(LENGTH, np.uint64)
    power[0] = 1
    for bit in f"{exponent:b}":
        square = np.convolve(power, power)
        power = reduced(np.concatenate([np.zeros(1, np.uint64), square]) if bit == "1" else square)
    return power


def reduced(polynomial: Words) -> Words:
    """The polynomial modulo the characteristic one, by replacing x^n with x^(n-273) + x^(n-607)."""
    end = len(polynomial)
    while end > LENGTH:
        # at most TAP at a time, so that no term lands among those being replaced
        start = max(LENGTH, end - TAP)
        highest = polynomial[start:end].copy()
        polynomial[start - TAP : end - TAP] += highest
        polynomial[start - LENGTH : end - LENGTH] += highest
        end = start
    return polynomial[:LENGTH]
