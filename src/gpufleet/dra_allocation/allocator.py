"""The allocator: claims of one pod, a node, and what is held; out come allocations, or why there are none.

Requests, pools and devices are gone through as Kubernetes does (its module dynamic-resource-allocation,
structured). Where it stops with an error of one node, the node is refused; ClaimError is kept for claims
that no node can serve.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence

from gpufleet.device_selectors.selector import DEFAULT_FEATURES, Features
from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.answers import allocation_of
from gpufleet.dra_allocation.claims import DeviceChoice, DeviceClass, DeviceRequest, ResourceClaim
from gpufleet.dra_allocation.diagnosis import ChoiceDiagnosis, diagnosis
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.matching import ChoiceMatcher
from gpufleet.dra_allocation.pools import Candidate, Pool
from gpufleet.dra_allocation.preference import CandidateOrder, first_fit
from gpufleet.dra_allocation.results import RESULTS_MAX, Allocation, Refusal
from gpufleet.dra_allocation.search import (
    TRIALS_MAX,
    Found,
    PlannedChoice,
    PlannedRequest,
    Search,
    SearchTooLongError,
)
from gpufleet.dra_allocation.trial import Trial


class Allocator:
    """Allocates claims from the pools that one node can reach."""

    def __init__(
        self,
        node_name: str,
        pools: Sequence[Pool],
        classes: Mapping[str, DeviceClass],
        features: Features = DEFAULT_FEATURES,
        order: CandidateOrder = first_fit,
    ) -> None:
        self._node_name = node_name
        self._pools = pools
        self._classes = classes
        self._features = features
        self._order = order
        self._verdicts: dict[Hashable, dict[Candidate, bool]] = {}
        self.candidates = tuple(one for pool in pools for one in pool.candidates)

    def allocate(
        self, claims: Sequence[ResourceClaim], held: HeldDevices, trials_max: int = TRIALS_MAX
    ) -> tuple[Allocation, ...] | Refusal:
        """An allocation for each claim, or why this node has none for all of them.

        Raises ClaimError where no node could have one.
        """
        matchers = [self._matchers(claim) for claim in claims]
        problem = self._problem_of_all(claims)
        if problem:
            return Refusal(problem)
        trial = Trial(self._pools, held, claims)
        requests = [one for place, claim in enumerate(matchers) for one in self._planned(place, claim, trial)]
        search = Search(requests, trial, trials_max)
        try:
            found = search.run()
        except SearchTooLongError:
            return Refusal(f"the search was ended after {trials_max} trials without a result")
        if found is None:
            return Refusal(self._why_not())
        by_claim: list[list[list[Found]]] = [[] for _ in claims]
        for request, devices in zip(requests, found, strict=True):
            by_claim[request.claim].append(devices)
        return tuple(
            allocation_of(claim, devices, self._node_name)
            for claim, devices in zip(claims, by_claim, strict=True)
        )

    def diagnosis(
        self, claims: Sequence[ResourceClaim], held: HeldDevices
    ) -> tuple[tuple[ChoiceDiagnosis, ...], ...]:
        """For each request of each claim in turn: what the devices have against its choices.

        Raises ClaimError where no node could have one.
        """
        matchers = [choices for claim in claims for choices in self._matchers(claim)]
        return diagnosis(matchers, self.candidates, Trial(self._pools, held, claims))

    @property
    def problems(self) -> tuple[str, ...]:
        """Why pools of the node give no device, each with its name."""
        return tuple(f"pool {pool.path} {pool.problem}" for pool in self._pools if pool.problem)

    def _matchers(self, claim: ResourceClaim) -> list[list[ChoiceMatcher]]:
        # A request for all devices counts as one: how many there are is known on a node only.
        least = sum(min(choice.count or 1 for choice in request.choices) for request in claim.requests)
        if least > RESULTS_MAX:
            problem = f"claim {claim.path} asks for too many devices"
            raise ClaimError(problem, value=least, expected=f"at most {RESULTS_MAX} in one claim")
        return [
            [self._matcher(claim, request, choice) for choice in request.choices]
            for request in claim.requests
        ]

    def _matcher(self, claim: ResourceClaim, request: DeviceRequest, choice: DeviceChoice) -> ChoiceMatcher:
        device_class = self._classes.get(choice.class_name)
        if device_class is None:
            raise ClaimError(
                "a device class that does not exist",
                field="deviceClassName",
                value=choice.class_name,
                expected="a DeviceClass of this cluster",
                where=f"claim {claim.path}, request {request.full_name(choice)}",
            )
        # By selectors: claims of one class with the same selectors have the same verdict on a device.
        verdicts = self._verdicts.setdefault((device_class.selectors, choice.selectors), {})
        return ChoiceMatcher(claim, request, choice, device_class, self._features, verdicts)

    def _problem_of_all(self, claims: Sequence[ResourceClaim]) -> str:
        """Why it cannot be known what "all devices" are, where a request asks for them."""
        pool = next((pool for pool in self._pools if pool.problem), None)
        if pool is None:
            return ""
        for claim in claims:
            for request in claim.requests:
                if any(choice.count is None for choice in request.choices):
                    return (
                        f"claim {claim.path}, request {request.name} asks for all devices, "
                        f"but pool {pool.path} {pool.problem}"
                    )
        return ""

    def _planned(self, index: int, of_claim: list[list[ChoiceMatcher]], trial: Trial) -> list[PlannedRequest]:
        choices = [[self._planned_choice(matcher, trial) for matcher in matchers] for matchers in of_claim]
        least = [min((one.count for one in row if one.count), default=0) for row in choices]
        # From the back: each request gets the least number of devices that later ones of its claim need.
        later = list(itertools.accumulate(reversed(least[1:]), initial=0))[::-1]
        return [PlannedRequest(index, row, rest) for row, rest in zip(choices, later, strict=True)]

    def _planned_choice(self, matcher: ChoiceMatcher, trial: Trial) -> PlannedChoice:
        count = matcher.choice.count
        if count is not None:
            ordered = self._order(matcher, self.candidates, count, trial)
            return PlannedChoice(matcher, ordered, count, takes_all=False)
        # Devices that are held now stay in: a request for all devices fails where one is taken, as in
        # Kubernetes.
        every = [one for one in self.candidates if matcher.matches(one) and matcher.could_serve(one)]
        return PlannedChoice(matcher, every, len(every), takes_all=True)

    def _why_not(self) -> str:
        pool = next((pool for pool in self._pools if pool.problem), None)
        words = "no devices of this node serve all requests together"
        return words if pool is None else f"{words}, and pool {pool.path} {pool.problem}"
