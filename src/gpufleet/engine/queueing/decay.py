"""Use that is forgotten by half in every half-life, in integers.

The decayed use is an average of all past use, in which use one half-life ago counts half as much as
use now. Under a steady use it approaches that use, halving the distance in every half-life:

    decayed(t + d) = used + (decayed(t) - used) * 2^(-d / half-life)

Time is cut into ticks, 4,096 to a half-life, at fixed moments of engine time. Within a tick the use is
summed up exactly; only the passing of ticks rounds. So it hardly matters how often the use is read: two
readings of the same use differ by no more than ``ERROR_MOST``, however many came before. Nothing here is a
float, so every machine finds the same. ``past_use`` keeps one of these for each queue that asks for it and
each resource.
"""

from dataclasses import dataclass, replace
from math import isqrt

TICKS_BITS = 12
TICKS_A_HALF_LIFE = 1 << TICKS_BITS
"""A power of two, so that the factor of any number of ticks is a product of square roots of a half."""

FRACTION_BITS = 16
"""Decayed use is kept in 1/65,536 of the unit of its resource."""

ERROR_MOST = 6_000
"""By how much two ways of looking at the same use may differ: less than a tenth of a unit.

Rounding errs by at most half of the last place a tick, and is forgotten by half in every half-life:
1/2 / (1 - 2^(-1/4096)) = 2,955, and half of the last place for the means, for either way.
"""

FACTOR_BITS = 128
"""Bits of the factors' fractions: far more than the use has, so that only the use is rounded."""


def roots_of_half() -> tuple[int, ...]:
    """2^(-1/2), 2^(-1/4), ... 2^(-1/4096) as integers over 2^128, by square roots of integers."""
    # Twice the bits that are kept, so that the rounding of twelve roots does not reach those.
    precise = 2 * FACTOR_BITS
    root, roots = 1 << (precise - 1), []
    for _ in range(TICKS_BITS):
        # The root of a fraction with that many bits: the shift makes up for the half of them that it loses.
        root = isqrt(root << precise)
        roots.append(root >> (precise - FACTOR_BITS))
    return tuple(roots)


ROOTS_OF_HALF = roots_of_half()


def table_of_factors() -> tuple[int, ...]:
    """2^(-x / 4096) for every x below 4,096, over 2^128; each is a product of at most twelve roots."""
    factors = [1 << FACTOR_BITS]
    # From the root of one tick up: each pass adds the factors with one bit more of x.
    for root in reversed(ROOTS_OF_HALF):
        factors += [factor * root >> FACTOR_BITS for factor in factors]
    return tuple(factors)


FACTORS = table_of_factors()


def remembered(amount: int, ticks: int) -> int:
    """What is left of an amount after so many ticks, to the nearest integer (halves up)."""
    bits = FACTOR_BITS + (ticks >> TICKS_BITS)
    return (amount * FACTORS[ticks & (TICKS_A_HALF_LIFE - 1)] + (1 << (bits - 1))) >> bits


@dataclass(frozen=True, slots=True)
class DecayedUse:
    """Past use as of ``at_us``, and the use since then, which is steady until another is told.

    ``value`` is the decayed use at the beginning of the tick that holds ``at_us``, in 1/65,536 of a
    unit; ``area`` what was used in that tick so far, in units times microseconds.
    """

    at_us: int
    used: int = 0
    value: int = 0
    area: int = 0

    def at(self, now_us: int, half_life_us: int) -> "DecayedUse":
        """The past use as of a later moment, under a steady use; at an earlier one nothing changes."""
        if now_us <= self.at_us:
            return self
        tick_us = tick_length_us(half_life_us)
        tick, now_tick = self.at_us // tick_us, now_us // tick_us
        if tick == now_tick:
            return replace(self, at_us=now_us, area=self.area + self.used * (now_us - self.at_us))
        end_us = (tick + 1) * tick_us
        area = self.area + self.used * (end_us - self.at_us)
        # Half a tick is added, so that the division rounds to the nearest value and not always down.
        mean = ((area << FRACTION_BITS) + tick_us // 2) // tick_us
        # Towards what was used in the tick and not towards 0: steady use stays as it is.
        value = mean + remembered(self.value - mean, 1)
        level = self.used << FRACTION_BITS
        # All whole ticks of steady use in one step.
        value = level + remembered(value - level, now_tick - tick - 1)
        begun_us = now_us - now_tick * tick_us
        return DecayedUse(now_us, self.used, value, self.used * begun_us)

    def using(self, used: int) -> "DecayedUse":
        """From this moment on the use is another."""
        return replace(self, used=used)

    def regauged(self, half_life_us: int) -> "DecayedUse":
        """From this moment on use is forgotten at another rate, and ticks begin elsewhere."""
        return replace(self, area=self.used * (self.at_us % tick_length_us(half_life_us)))


def tick_length_us(half_life_us: int) -> int:
    """How long a tick is. A half-life is thereby cut to a multiple of 4,096 us, which is its least."""
    return max(1, half_life_us >> TICKS_BITS)
