"""What each of several claims is owed of one resource: water poured into fillings of unequal width.

Each claim gets its nominal amount, as far as it wants that. What is left over is poured by priority, and
among equal priorities by weight: each filling is as wide as its weight and as high as what is still wanted
allows, so a claim that wants less than its part leaves the rest to the others. A claim of weight 0 gets only
what no other claim wants.

Amounts are integers, and GPUs are whole. So the water comes in units, as turns are given out (``turns``):
each unit goes to the claim that has least for its weight, of equal ones to the larger weight. What is owed is
then what starts on an empty fleet. ``entitlements`` asks this for every level of a tree of queues.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from gpufleet.model.queue import WEIGHT_ONE_MILLI

HEIGHT_BITS = 128
"""Heights are fractions whose denominators, weights, are below 2^63: those that differ do so by 2^-126."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one claim wants of a resource, and by which right.

    ``demand`` is what is used and waited for; no more than ``limit`` is given of it, None being
    without a limit.
    """

    name: str
    demand: int
    nominal: int = 0
    limit: int | None = None
    priority: int = 0
    weight_milli: int = WEIGHT_ONE_MILLI

    @property
    def most(self) -> int:
        """What the claim can be given at most."""
        return self.demand if self.limit is None else max(0, min(self.demand, self.limit))


@dataclass(frozen=True, slots=True)
class FillingClaim:
    """One claim while water is poured: how wide it is, and how much it still holds."""

    name: str
    weight: int
    room: int


def owed_by_name(capacity: int, claims: Sequence[Claim], unit: int = 1) -> dict[str, int]:
    """What each claim is owed of ``capacity``, of which what is left over goes in whole ``unit`` pieces.

    A piece is broken only where a claim wants no more, or where nothing else is left. Where the nominal
    amounts exceed the capacity, it is divided in proportion to them.
    """
    owed = {claim.name: min(claim.nominal, claim.most) for claim in claims}
    if sum(owed.values()) > capacity:
        nominal = [
            FillingClaim(claim.name, claim.nominal, owed[claim.name]) for claim in claims if claim.nominal
        ]
        return dict.fromkeys(owed, 0) | poured(capacity, nominal, unit)
    left = capacity - sum(owed.values())
    for alike in by_rank(claims):
        fillings = [
            FillingClaim(claim.name, claim.weight_milli or 1, claim.most - owed[claim.name])
            for claim in alike
        ]
        given = poured(left, fillings, unit)
        for name, amount in given.items():
            owed[name] += amount
        left -= sum(given.values())
    return owed


def by_rank(claims: Iterable[Claim]) -> list[list[Claim]]:
    """The claims that share alike in what is left over, the first to be served at the front."""

    def rank(claim: Claim) -> tuple[bool, int]:
        return (claim.weight_milli == 0, -claim.priority)

    return [list(alike) for _, alike in groupby(sorted(claims, key=rank), key=rank)]


def poured(amount: int, fillings: Sequence[FillingClaim], unit: int) -> dict[str, int]:
    """How much of ``amount`` comes into each filling, unit after unit into the lowest that is not full."""
    amount = min(amount, sum(filling.room for filling in fillings))
    # Rounding gives no filling more than a unit beyond its part: all but a unit for each is poured at once.
    given = poured_at_once(amount - unit * len(fillings), fillings, unit)
    left = amount - sum(given.values())

    def turn(filling: FillingClaim) -> tuple[int, int, str, FillingClaim]:
        height = (given[filling.name] << HEIGHT_BITS) // filling.weight
        return height, -filling.weight, filling.name, filling

    lowest = [turn(filling) for filling in fillings if given[filling.name] < filling.room]
    heapq.heapify(lowest)
    while left:
        filling = lowest[0][-1]
        piece = min(unit, left, filling.room - given[filling.name])
        given[filling.name] += piece
        left -= piece
        if given[filling.name] < filling.room:
            heapq.heapreplace(lowest, turn(filling))
        else:
            heapq.heappop(lowest)
    return given


def poured_at_once(amount: int, fillings: Sequence[FillingClaim], unit: int) -> dict[str, int]:
    """What is in each filling, in whole units rounded down, once ``amount`` stands level in all."""
    given = {filling.name: 0 for filling in fillings}
    weight = sum(filling.weight for filling in fillings)
    # In the order in which they are full when the water rises.
    rising = sorted(fillings, key=lambda filling: Fraction(filling.room, filling.weight))
    for number, filling in enumerate(rising):
        # Filled to the brim if the water, spread over all that are not full yet, stands higher.
        if filling.room * weight > amount * filling.weight:
            lower = rising[number:] if amount > 0 else []
            return given | {one.name: amount * one.weight // (weight * unit) * unit for one in lower}
        given[filling.name] = filling.room
        amount -= filling.room
        weight -= filling.weight
    return given
