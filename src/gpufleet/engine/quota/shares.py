"""How much of what is shared somebody has: dominant shares, as exact fractions.

A queue's share of a resource is what it borrows (its use beyond its nominal amount) over what its parent
has to share, divided by its weight. The largest over all resources is its dominant share (Ghodsi
et al., Dominant Resource Fairness, NSDI 2011, section 4; borrowed instead of used, as in Kueue's KEP
1714). Fractions are of Python's integers: two shares that differ are never taken for equal, on no
machine. ``turns`` serves the smallest share first, preemption compares shares within a trial.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from gpufleet.model.queue import WEIGHT_ONE_MILLI

NOT_LIMITED = -1
"""What a parent has to share of a resource that is not limited there: no share arises from it."""

ORDER_BITS = 384
"""Fractions whose denominators are below 2^192 differ by more than 2^-384 if they differ."""


class Share(NamedTuple):
    """A dominant share; the smaller one has the better right.

    ``endless`` shares are larger than all others: of a queue of weight 0, which gets only what nobody
    else wants, and of one that holds what its parent has nothing of (a quota cut below its use).
    """

    endless: bool
    ratio: Fraction


class RawShare(NamedTuple):
    """The same as it is reckoned, not reduced."""

    endless: bool
    numerator: int
    denominator: int

    @property
    def share(self) -> Share:
        """As a value to compare and to show."""
        return Share(self.endless, Fraction(self.numerator, self.denominator))

    @property
    def order_key(self) -> tuple[bool, int]:
        """Integers in the order of the shares: equal where they are, smaller where they are.

        A comparison of tuples of integers costs a tenth of that of two fractions.
        """
        return self.endless, (self.numerator << ORDER_BITS) // self.denominator


def dominant(borrowed: Sequence[int], to_share: Sequence[int], weight_milli: int, scale: int = 1) -> RawShare:
    """The largest share over all resources.

    ``borrowed`` says for each resource how much of it, in 1/``scale`` of its unit, is used beyond the
    nominal amount (nothing below 0 counts), ``to_share`` what the parent has in whole units.
    """
    numerator, denominator, unshared = 0, 1, 0
    for amount, whole in zip(borrowed, to_share, strict=True):
        if amount <= 0 or whole == NOT_LIMITED:
            continue
        if whole == 0:
            unshared = max(unshared, amount)
        elif amount * denominator > numerator * whole:
            numerator, denominator = amount, whole
    if unshared:
        return RawShare(True, unshared, scale)
    if weight_milli == 0:
        return RawShare(True, numerator, denominator * scale)
    return RawShare(False, numerator * WEIGHT_ONE_MILLI, denominator * weight_milli * scale)
