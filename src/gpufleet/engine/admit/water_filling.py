"""What each of several claims is owed of one resource: water poured into vessels of unequal width.

Each claim gets its nominal amount, as far as it wants that. What is left over is poured by priority, and
among equal priorities by weight: each vessel is as wide as its weight and as high as what is still wanted
allows, so a claim that wants less than its part leaves the rest to the others. A claim of weight 0 gets only
what no other claim wants. Amounts are integers; GPUs are given in whole units, and what rounding leaves goes,
a unit each, to the largest remainders. ``entitlements`` asks this for every level of a tree of queues.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from gpufleet.model.queue import WEIGHT_ONE_MILLI


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
class Vessel:
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
        nominal = [Vessel(claim.name, claim.nominal, owed[claim.name]) for claim in claims if claim.nominal]
        return dict.fromkeys(owed, 0) | poured(capacity, nominal, unit)
    left = capacity - sum(owed.values())
    for alike in by_rank(claims):
        vessels = [
            Vessel(claim.name, claim.weight_milli or 1, claim.most - owed[claim.name]) for claim in alike
        ]
        given = poured(left, vessels, unit)
        for name, amount in given.items():
            owed[name] += amount
        left -= sum(given.values())
    return owed


def by_rank(claims: Iterable[Claim]) -> list[list[Claim]]:
    """The claims that share alike in what is left over, the first to be served at the front."""

    def rank(claim: Claim) -> tuple[bool, int]:
        return (claim.weight_milli == 0, -claim.priority)

    return [list(alike) for _, alike in groupby(sorted(claims, key=rank), key=rank)]


def poured(amount: int, vessels: Sequence[Vessel], unit: int) -> dict[str, int]:
    """How much of ``amount`` comes into each vessel."""
    given: dict[str, int] = {}
    weight = sum(vessel.weight for vessel in vessels)
    rising = sorted(vessels, key=lambda vessel: Fraction(vessel.room, vessel.weight))
    for number, vessel in enumerate(rising):
        # Filled to the brim if the water, spread over all that are not full yet, stands higher.
        if vessel.room * weight > amount * vessel.weight:
            return given | rounded(amount, rising[number:], unit)
        given[vessel.name] = vessel.room
        amount -= vessel.room
        weight -= vessel.weight
    return given


def rounded(amount: int, vessels: Sequence[Vessel], unit: int) -> dict[str, int]:
    """``amount`` by weight among vessels that it does not fill, in whole units by the largest remainder."""
    weight = sum(vessel.weight for vessel in vessels)
    given = {one.name: amount * one.weight // (weight * unit) * unit for one in vessels}
    left = amount - sum(given.values())

    def turn(vessel: Vessel) -> tuple[int, str]:
        return (given[vessel.name] * weight - amount * vessel.weight, vessel.name)

    waiting = sorted(vessels, key=turn)
    while left:
        for vessel in waiting:
            piece = min(unit, left, vessel.room - given[vessel.name])
            given[vessel.name] += piece
            left -= piece
    return given
