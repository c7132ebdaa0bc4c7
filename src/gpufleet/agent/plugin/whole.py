"""Who may have which whole devices, where the kubelet names units and no pod.

The agent knows the grants of the pods of its node, and which containers hold something already. What
is granted and not held yet is an open claim. From that follows, as arithmetic of sets: units that are
exactly one open claim are that claim's; units that nobody was granted are anybody's; anything else is
a part of somebody's grant and is refused, with that pod's name. Two claims of the same size may get each
other's units that way, and each still has as many as it was granted; what was recorded is reported as
fact afterwards, and the scheduler's books follow it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from gpufleet.agent.errors import RefusedError


class OpenClaim(msgspec.Struct, frozen=True):
    """Units granted to a container that holds none of them yet.

    ``given`` is True where an answer for exactly these units is under way: the kubelet may not have
    recorded it yet, or may have lost it and ask again.
    """

    pod: str
    container: str
    units: frozenset[str]
    since_s: float
    given: bool = False

    @property
    def rank(self) -> tuple[bool, float, str, str]:
        """Who is served first: those not given anything yet, then the oldest."""
        return self.given, self.since_s, self.pod, self.container


Best = Callable[[Sequence[str], Sequence[str], int], list[str]]
"""The best units of those free by links and NUMA: (free, required, how many)."""


def preferred(
    available: Collection[str],
    required: Collection[str],
    size: int,
    claims: Iterable[OpenClaim],
    best: Best,
    *,
    unsure: bool = False,
) -> list[str]:
    """The units to propose: those of the first claim that they fulfil, otherwise free ones.

    With ``unsure`` somebody without a grant may be asking, so only free ones are proposed, unless those that
    are required already tell whose claim it is. Raises RefusedError where nothing is possible: what is
    left is granted to others.
    """
    offered, needed = frozenset(available), frozenset(required)
    claims = sorted(claims, key=lambda claim: claim.rank)
    for claim in claims:
        known = bool(needed) or not unsure
        if known and len(claim.units) == size and needed <= claim.units <= offered:
            return sorted(claim.units)
    granted = frozenset[str]().union(*(claim.units for claim in claims))
    free = sorted((offered - granted) | needed)
    if len(free) < size:
        raise RefusedError(_taken(size, offered & granted, claims))
    return best(free, sorted(needed), size)


def claimant(units: Collection[str], claims: Iterable[OpenClaim]) -> OpenClaim | None:
    """Whose claim these units are; None where nobody was granted any of them.

    Raises RefusedError where they are a part of somebody's grant, or of several.
    """
    asked = frozenset(units)
    claims = sorted(claims, key=lambda claim: claim.rank)
    for claim in claims:
        if claim.units == asked:
            return claim
    for claim in claims:
        if len(claim.units) == len(asked) and asked <= _lent(claim, claims):
            return claim
    touched = frozenset[str]().union(*(claim.units & asked for claim in claims))
    if touched:
        raise RefusedError(_taken(len(asked), touched, claims))
    return None


def _lent(claim: OpenClaim, claims: Iterable[OpenClaim]) -> frozenset[str]:
    """What init containers of the same pod leave to this one: the kubelet takes of it what it likes."""
    lenders = (one for one in claims if one.pod == claim.pod and claim.units < one.units)
    return frozenset[str]().union(*(one.units for one in lenders))


def _taken(size: int, units: frozenset[str], claims: Sequence[OpenClaim]) -> str:
    """Why so many units cannot be had: the pods to which they are granted."""
    holders = list(dict.fromkeys(claim.pod for claim in claims if claim.units & units))
    shown = ", ".join(holders[:3]) + (f" and {len(holders) - 3} more" if len(holders) > 3 else "")
    what = "this device is" if size == 1 else "of these devices some are"
    return f"{what} granted to {shown}, on the way to this node; a pod without a grant gets only what is free"
