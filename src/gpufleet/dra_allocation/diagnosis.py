"""Why a node refuses claims, in detail: what each of its devices has against each choice of each request.

Of one request at a time, so a claim may be refused although each request has devices enough: then its
requests, or its constraints, do not go together. ``ways_out`` says which change would help.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpufleet.dra_allocation.matching import ChoiceMatcher
from gpufleet.dra_allocation.obstacles import Obstacle, ObstacleKind, obstacles
from gpufleet.dra_allocation.pools import Candidate
from gpufleet.dra_allocation.slices import DeviceId
from gpufleet.dra_allocation.trial import Trial

COSTS: dict[ObstacleKind, int] = {
    kind: 10 ** (len(ObstacleKind) - place - 1) for place, kind in enumerate(ObstacleKind)
}
"""How hard each kind is to change: one of a kind that stands earlier is more than all that stand later."""


@dataclass(frozen=True, slots=True)
class ChoiceDiagnosis:
    """A choice: how many devices it asks for, which would do, and what the others have against it.

    ``count`` is None where all that match are asked for.
    """

    claim: str
    request: str
    class_name: str
    count: int | None
    serving: tuple[DeviceId, ...]
    refused: Mapping[DeviceId, tuple[Obstacle, ...]]

    @property
    def lacking(self) -> int:
        """How many devices are missing; of all that match, those that are refused for what is held."""
        if self.count is not None:
            return max(0, self.count - len(self.serving))
        hard = {ObstacleKind.SELECTOR, ObstacleKind.NODE}
        matching = [one for one in self.refused.values() if not any(each.kind in hard for each in one)]
        return max(len(matching), 0 if self.serving else 1)

    @property
    def nearest(self) -> tuple[DeviceId, tuple[Obstacle, ...]] | None:
        """The refused device that needs the least change."""
        return min(self.refused.items(), key=lambda one: (_cost(one[1]), one[0]), default=None)

    @property
    def cost(self) -> int:
        """How much would have to change for it: more for each device that is missing, and for hard kinds."""
        costs = sorted(map(_cost, self.refused.values()))[: self.lacking]
        missing = self.lacking - len(costs)
        return sum(costs) + missing * NO_DEVICE_COST


NO_DEVICE_COST: int = 10 ** len(ObstacleKind)
"""A device that is not there at all is harder to come by than any change of one."""


def diagnosis(
    matchers: Sequence[Sequence[ChoiceMatcher]], candidates: Sequence[Candidate], trial: Trial
) -> tuple[tuple[ChoiceDiagnosis, ...], ...]:
    """For each request the diagnoses of its choices. ``trial`` has nothing chosen."""
    return tuple(tuple(_of_choice(one, candidates, trial) for one in choices) for choices in matchers)


def _of_choice(matcher: ChoiceMatcher, candidates: Sequence[Candidate], trial: Trial) -> ChoiceDiagnosis:
    found = {one.id: obstacles(matcher, one, trial) for one in candidates}
    choice = matcher.choice
    return ChoiceDiagnosis(
        matcher.claim.path,
        matcher.request.full_name(choice),
        choice.class_name,
        choice.count,
        tuple(device for device, against in found.items() if not against),
        {device: against for device, against in found.items() if against},
    )


def _cost(against: Sequence[Obstacle]) -> int:
    return sum(COSTS[kind] for kind in {one.kind for one in against})
