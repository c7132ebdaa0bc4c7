"""Which container may have which whole devices, where the kubelet names units and no pod.

The agent knows the grants of the pods of its node, and which containers hold something already. What
is granted and not held yet is an open claim. From that follows, as arithmetic of sets: units that are
exactly one open claim are that claim's; units that no pod was granted are free for any pod; anything else is
a part of another grant and is refused, with that pod's name. Two claims of the same size may get each
other's units that way, and each still has as many as it was granted; what was recorded is reported as
fact afterwards, and the scheduler's state follows it.

What a container holds is no other's until its pod is finished, also where the kubelet forgot it and where
the pod went from the API before. Such a
container asks again when it starts anew (a claim that ``returns``); it gets its own units back where no
other pod can be the one that asks.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from gpufleet.agent.state.state_errors import RefusedError


class OpenClaim(msgspec.Struct, frozen=True):
    """Units granted to a container that holds none of them yet.

    ``given`` is True where an answer for exactly these units is under way: the kubelet may not have
    recorded it yet, or may have lost it and ask again. ``returns`` is True where the container held the
    units, does not run, and the kubelet does not know of them any more; it then asks for ``size`` of them.
    ``ended`` says that it ran before, and ``lends`` that those after it in its pod may have the same units.
    """

    pod: str
    container: str
    units: frozenset[str]
    since_s: float
    given: bool = False
    returns: bool = False
    size: int = 0
    uid: str = ""
    ended: bool = False
    lends: bool = False

    @property
    def rank(self) -> tuple[bool, float, str, str]:
        """The order of service: claims not answered yet, then the oldest."""
        return self.given, self.since_s, self.pod, self.container

    @property
    def wants(self) -> int:
        """How many units it asks for."""
        return self.size or len(self.units)


class TakenUnits(msgspec.Struct, frozen=True):
    """Units that a container has, or may have. Without units it is unknown which they are.

    ``lends`` says that those after it in its own pod may have them too, ``answered`` that an answer under way
    may be that container's, and ``vanished`` that its pod went from the API before it was finished.
    """

    uid: str
    pod: str
    container: str
    units: frozenset[str]
    lends: bool = False
    answered: bool = False
    vanished: bool = False

    def keeps_from(self, uid: str, container: str) -> bool:
        """Whether its units are none for this container."""
        if uid != self.uid:
            return True
        return container != self.container and not self.lends


Best = Callable[[Sequence[str], Sequence[str], int], list[str]]
"""The best units of those free by links and NUMA: (free, required, how many)."""


def preferred(
    available: Collection[str],
    required: Collection[str],
    size: int,
    claims: Iterable[OpenClaim],
    best: Best,
    *,
    taken_units: Collection[TakenUnits] = (),
    unsure: bool = False,
) -> list[str]:
    """The units to propose: those of the first claim that they fulfil, otherwise free ones.

    With ``unsure`` a pod without a grant may be asking, so only free ones are proposed, unless those that
    are required already tell which claim it is. Raises RefusedError where nothing is possible: what is
    left is granted to others, or taken.
    """
    offered, needed = frozenset(available), frozenset(required)
    claims = sorted(claims, key=lambda claim: claim.rank)
    for claim in claims:
        # Required units tell which container asks; without them a pod without a grant may be asking.
        known = bool(needed) or not unsure
        fits = known and not claim.returns and len(claim.units) == size
        if fits and needed <= claim.units <= offered - _kept_from(claim, taken_units):
            return sorted(claim.units)
    returning = [claim for claim in claims if claim.returns and claim.wants == size]
    # A container that starts again gets what it had, not what is best.
    if returning and not unsure:
        check_alone(returning[0], size, claims)
        return _returned(returning[0], offered, needed, taken_units)
    granted = frozenset[str]().union(*(claim.units for claim in claims))
    taken = frozenset[str]().union(*(one.units for one in taken_units))
    # What is required was promised by the kubelet already, so it counts as free.
    free = sorted((offered - granted - taken) | needed)
    if len(free) < size:
        check_free(offered - needed, taken_units)
        raise RefusedError(_taken(size, offered & granted, claims))
    return best(free, sorted(needed), size)


def claimant(units: Collection[str], claims: Iterable[OpenClaim]) -> OpenClaim | None:
    """The claim for these units; None where no pod was granted any of them.

    Raises RefusedError where they are a part of a grant, or of several.
    """
    # The surest first: exactly a grant, what containers of a pod lend each other, what one had before.
    asked = frozenset(units)
    claims = sorted(claims, key=lambda claim: claim.rank)
    for claim in claims:
        if not claim.returns and claim.units == asked:
            return claim
    for claim in claims:
        if not claim.returns and len(claim.units) == len(asked) and asked <= _lent(claim, claims):
            return claim
    for claim in claims:
        if claim.returns and claim.wants == len(asked) and asked <= claim.units:
            return claim
    # A part of a grant would leave its pod with too few.
    touched = frozenset[str]().union(*(claim.units & asked for claim in claims if not claim.returns))
    if touched:
        raise RefusedError(_taken(len(asked), touched, claims))
    return None


def check_alone(claim: OpenClaim, size: int, claims: Iterable[OpenClaim], others: Iterable[str] = ()) -> None:
    """Raises RefusedError where another pod may be the one that asks for as many.

    ``others`` are pods without a grant that may.
    """
    rivals = {one.pod for one in claims if one.wants == size and _may_ask_for(claim, one)} | set(others)
    if rivals:
        raise RefusedError(
            f"{claim.pod} had {', '.join(sorted(claim.units))} before the kubelet lost its memory, and "
            f"{min(rivals)} may ask for as many now, so it cannot be told which of them asks; it is tried "
            "again when the container starts anew, or by the pod's controller"
        )


def _may_ask_for(claim: OpenClaim, other: OpenClaim) -> bool:
    """Whether another container may be the one that asks for what a claim names, and not have it yet.

    Those of one pod that all ended may have each other's units, as none of them runs on any.
    """
    if claim.pod != other.pod:
        return True
    same = claim.container == other.container
    return not (same or claim.lends or other.lends or (claim.ended and other.ended))


def check_free(
    asked: Collection[str], taken_units: Iterable[TakenUnits], uid: str = "", container: str = ""
) -> None:
    """Raises RefusedError where a unit is, or may be, that of another container than this one."""
    for one in taken_units:
        if not one.keeps_from(uid, container):
            continue
        touched = one.units.intersection(asked)
        which = ", ".join(sorted(touched))
        if touched and one.answered:
            raise RefusedError(
                f"{which} was given a moment ago, perhaps to container {one.container} of "
                f"{one.pod}, and the kubelet does not report its holder yet"
            )
        if touched and one.vanished:
            raise RefusedError(
                f"{which} belongs to container {one.container} of {one.pod}, which went from the API before "
                "it was finished, so its container may run on; it is free when the grace of that pod is over"
            )
        if touched:
            raise RefusedError(
                f"{which} belongs to container {one.container} of {one.pod} until that "
                "pod is finished, whatever the kubelet knows of it"
            )
        # A container with a device that nothing remembers may be on any of them.
        if not one.units and asked:
            raise RefusedError(
                f"container {one.container} of {one.pod} runs on a device that neither the kubelet nor the "
                "agent knows any more, so any device may be it; nothing is given until that pod is finished"
            )


def _kept_from(claim: OpenClaim, taken_units: Iterable[TakenUnits]) -> frozenset[str]:
    """What others have, so that this claim cannot be fulfilled with it."""
    others = (one.units for one in taken_units if one.keeps_from(claim.uid, claim.container))
    return frozenset[str]().union(*others)


def _returned(
    claim: OpenClaim, offered: frozenset[str], needed: frozenset[str], taken_units: Iterable[TakenUnits]
) -> list[str]:
    """A container's own units, as many as it asks for."""
    own = sorted(claim.units & offered - needed - _kept_from(claim, taken_units))
    chosen = [*sorted(needed), *own][: claim.wants]
    if len(chosen) < claim.wants or not needed <= claim.units:
        words = "what it had before the kubelet lost its memory is not offered or belongs to another by now"
        raise RefusedError(f"container {claim.container} of {claim.pod}: {words}")
    return sorted(chosen)


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
