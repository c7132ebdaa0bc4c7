"""The search: for each request of each claim in turn the first devices that serve it, with the way back.

Devices of one request are tried as sets, in the order of pools; where a request cannot be served the choices
before it are changed, the last one first. So the first solution is that of Kubernetes' allocator. A search
that is not quick begins anew without devices that cannot serve, and leaves out devices that are like one that
led to nothing. The number of trials is bounded, since a search may take exponential time.
"""

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.equivalence import DeviceEquivalence
from gpufleet.dra_allocation.matching import ChoiceMatcher
from gpufleet.dra_allocation.pools import Candidate
from gpufleet.dra_allocation.results import RESULTS_MAX
from gpufleet.dra_allocation.trial import Trial

TRIALS_MAX = 200_000
"""About a second of work; searches that find something take fewer by far."""

QUICK_TRIALS_MAX = 64
"""Trials of a first search, of which most claims need fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedChoice:
    """A choice with the devices that may serve it. Where ``takes_all``, it needs every one of them."""

    matcher: ChoiceMatcher
    candidates: Sequence[Candidate]
    count: int
    takes_all: bool


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRequest:
    """A request of the claim at the place ``claim``; later ones of it need ``later_min`` devices or more."""

    claim: int
    choices: Sequence[PlannedChoice]
    later_min: int


@dataclass(frozen=True, slots=True)
class Found:
    """A device for a choice."""

    choice: PlannedChoice
    candidate: Candidate


class SearchTooLongError(Exception):
    """The search was ended at the bound of trials."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request that is being served, by the choice at ``position``."""

    index: int
    before: int
    position: int = -1


@dataclass(slots=True, eq=False)
class _Device:
    """A device of a choice that is being searched, from ``cursor`` on; ``nth`` of those of the choice."""

    request: _Request
    choice: PlannedChoice
    nth: int
    cursor: int
    found: Candidate | None = None
    failed: set[Hashable] = field(default_factory=set)


class Search:
    """One search over the devices of a node."""

    def __init__(self, requests: Sequence[PlannedRequest], trial: Trial, trials_max: int) -> None:
        self._requests = list(requests)
        self._trial = trial
        self._trials_max = trials_max
        self._left = 0
        self._equivalence: DeviceEquivalence | None = None
        self._stack: list[_Request | _Device] = []

    def run(self) -> list[list[Found]] | None:
        """The devices of each request, None where there is no solution.

        Raises ClaimError, and SearchTooLongError at the bound of trials.
        """
        if not self._requests:
            return []
        try:
            return self._from_start(QUICK_TRIALS_MAX)
        except SearchTooLongError:
            # What the quick search had booked would look like devices of others.
            self._take_back()
        if not self._narrowed():
            return None
        matchers = [choice.matcher for request in self._requests for choice in request.choices]
        self._equivalence = DeviceEquivalence(matchers, self._trial)
        return self._from_start(self._trials_max)

    def _from_start(self, trials_max: int) -> list[list[Found]] | None:
        self._left = trials_max
        self._stack = [_Request(0, 0)]
        while self._stack:
            top = self._stack[-1]
            follower = self._chosen(top) if isinstance(top, _Request) else self._searched(top)
            if follower is None:
                self._stack.pop()
                continue
            if follower is DONE:
                return self._solution()
            self._stack.append(follower)
        return None

    def _take_back(self) -> None:
        for one in reversed(self._stack):
            if isinstance(one, _Device) and one.found is not None:
                self._trial.give_back(one.choice.matcher, one.found)

    def _chosen(self, top: _Request) -> "_Request | _Device | None":
        """The first device of the next choice that may fit into the claim."""
        request = self._requests[top.index]
        for position in range(top.position + 1, len(request.choices)):
            choice = request.choices[position]
            # A choice of all devices needs none where none matches, and that serves no request. What later
            # requests need at least is counted in, so that the claim stays within its bound.
            if choice.count and top.before + choice.count + request.later_min <= RESULTS_MAX:
                top.position = position
                return _Device(top, choice, 0, 0)
        return None

    def _searched(self, top: _Device) -> "_Request | _Device | None":
        matcher, candidates = top.choice.matcher, top.choice.candidates
        # The way back: what came after this device failed, and so would a device like it.
        if top.found is not None:
            self._trial.give_back(matcher, top.found)
            if self._equivalence is not None:
                top.failed.add(self._equivalence.of(top.found))
            top.found = None
        # Where all are needed, the device at this place has no alternative.
        end = top.cursor + 1 if top.choice.takes_all else len(candidates)
        if top.choice.takes_all and top.cursor > top.nth:
            return None
        for position in range(top.cursor, end):
            candidate = candidates[position]
            if top.failed and self._equivalence is not None and self._equivalence.of(candidate) in top.failed:
                continue
            if self._serves(matcher, candidate):
                top.found, top.cursor = candidate, position + 1
                return self._next(top)
        return None

    def _serves(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        trial = self._trial
        # A taken device is not asked about: a selector without a value for it would make the claim fail.
        if not (trial.is_free(matcher, candidate) and matcher.matches(candidate)):
            return False
        if not trial.has_room(matcher, candidate) or not candidate.is_served:
            return False
        self._left -= 1
        if self._left < 0:
            raise SearchTooLongError
        return trial.take(matcher, candidate)

    def _next(self, top: _Device) -> "_Request | _Device":
        if top.nth + 1 < top.choice.count:
            return _Device(top.request, top.choice, top.nth + 1, top.cursor)
        index = top.request.index + 1
        if index == len(self._requests):
            return DONE
        # The bound on devices is one of each claim.
        same = self._requests[index].claim == self._requests[index - 1].claim
        return _Request(index, top.request.before + top.choice.count if same else 0)

    def _solution(self) -> list[list[Found]]:
        found: list[list[Found]] = [[] for _ in self._requests]
        for one in self._stack:
            if isinstance(one, _Device) and one.found is not None:
                # The stack is in the order of the choices, so devices come in the order of Kubernetes.
                found[one.request.index].append(Found(one.choice, one.found))
        return found

    def _narrowed(self) -> bool:
        """Leave to each choice the devices that could serve it alone; False if some request has none left."""
        for place, request in enumerate(self._requests):
            choices = [one for one in map(self._narrowed_choice, request.choices) if one is not None]
            if not choices:
                return False
            self._requests[place] = dataclasses.replace(request, choices=choices)
        return True

    def _narrowed_choice(self, choice: PlannedChoice) -> PlannedChoice | None:
        candidates = [one for one in choice.candidates if self._may_serve(choice.matcher, one)]
        needed = len(choice.candidates) if choice.takes_all else choice.count
        if len(candidates) < needed:
            return None
        return dataclasses.replace(choice, candidates=candidates)

    def _may_serve(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        try:
            return self._trial.could_take(matcher, candidate)
        except ClaimError:
            # The search tells it when it comes to the device.
            return True


DONE = _Request(-1, 0)
"""Stands for the end of the last request."""
