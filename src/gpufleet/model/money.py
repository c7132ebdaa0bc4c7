"""Amounts of money in whole micro-units of a currency, and their division without a remainder.

No amount is ever a binary fraction. The weights of a division may pass 64 bits: 100 units an hour over 16
cards, by trillionths of a card and microseconds, need 80. Python's integers hold them.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from gpufleet.model.model_errors import InternalError

MICRO_UNITS = 1_000_000
"""Parts of a currency's unit: bills of clouds have six decimals."""

HUNDREDTHS = 100
"""Amounts are shown with two decimals."""


def apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """The parts of an amount by weight; they add up to the amount exactly.

    Each weight gets its exact part rounded towards 0, and what is left goes, one unit each, to the largest
    remainders (Hamilton's method). Of equal remainders the first one comes first, so the order of weights
    has to follow from what they stand for. Negative amounts, which are corrections, are divided as positive
    ones are. Raises InternalError for a negative weight, or where an amount has no weight to go to.
    """
    if any(weight < 0 for weight in weights):
        raise InternalError(f"a negative weight of a division: {min(weights)}")
    total = sum(weights)
    if total == 0:
        if amount:
            raise InternalError(f"an amount of {amount} has no weight to go to")
        return [0] * len(weights)
    size = abs(amount)
    divided = [divmod(size * weight, total) for weight in weights]
    parts = [part for part, _ in divided]
    left = size - sum(parts)
    if left:
        # Turned round, equal remainders still keep the order of their weights.
        by_remainder = sorted(range(len(weights)), key=lambda index: divided[index][1], reverse=True)
        for index in by_remainder[:left]:
            parts[index] += 1
    return parts if amount >= 0 else [-part for part in parts]


def rounded(numerator: int, denominator: int) -> int:
    """The whole number next to a quotient; of two equally near ones the even one."""
    whole, rest = divmod(numerator, denominator)
    twice = 2 * rest
    if twice > denominator or (twice == denominator and whole % 2):
        whole += 1
    return whole


def rounded_together(amounts: Sequence[Fraction]) -> list[int]:
    """Amounts as whole numbers that add up to their exact sum, rounded.

    Each is rounded down, and what is missing to the sum goes to the largest remainders, the first one first.
    """
    whole = [math.floor(amount) for amount in amounts]
    total = sum(amounts, Fraction(0))
    left = rounded(total.numerator, total.denominator) - sum(whole)
    largest = sorted(range(len(whole)), key=lambda place: amounts[place] - whole[place], reverse=True)
    for place in largest[:left]:
        whole[place] += 1
    return whole


def rounded_sums(amounts: Sequence[int]) -> list[str]:
    """Amounts in millionths with two decimals, and their sum behind them, to which they add up."""
    hundredths = rounded_together([Fraction(amount * HUNDREDTHS, MICRO_UNITS) for amount in amounts])
    return [decimals(one) for one in (*hundredths, sum(hundredths))]


def exact(amount_micro: int) -> str:
    """Millionths with all six decimals, as files have them: "1171.200000"."""
    sign, size = ("-" if amount_micro < 0 else ""), abs(amount_micro)
    return f"{sign}{size // MICRO_UNITS}.{size % MICRO_UNITS:06}"


def decimals(hundredths: int) -> str:
    """Hundredths as people write an amount: "1,171.20"."""
    sign, size = ("-" if hundredths < 0 else ""), abs(hundredths)
    return f"{sign}{size // HUNDREDTHS:,}.{size % HUNDREDTHS:02}"
