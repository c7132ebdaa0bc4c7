"""Ways out of a refusal: single changes, each of which was tried and makes the node serve the claims.

A change that the allocator did not accept is never told. The nearest come first: others end, then what the
owner of the claims can write another way.
"""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import (
    DeviceChoice,
    DeviceConstraint,
    DeviceToleration,
    ResourceClaim,
)
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.results import Allocation, Refusal
from gpufleet.dra_allocation.slices import EQUAL, DeviceTaint
from gpufleet.model.quantity import Quantity

TRIALS_MAX = 5_000
"""Of one change: many are tried, and a person waits for the answer."""

ENDING_TOGETHER_MAX = 8
"""So many claims that would all have to end are still a way out."""

HOLDERS_MAX = 64
"""So many holders of a node's devices are tried: more than a node has cards."""


@dataclass(frozen=True, slots=True)
class HoldersEnd:
    """The claims with these names, with their namespaces, give back their devices."""

    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WithoutConstraint:
    """The claim does without a constraint."""

    claim: str
    constraint: DeviceConstraint


@dataclass(frozen=True, slots=True)
class WithoutSelector:
    """A request does without a selector of its own."""

    claim: str
    request: str
    selector: str


@dataclass(frozen=True, slots=True)
class Tolerating:
    """A request puts up with a taint."""

    claim: str
    request: str
    taint: DeviceTaint


@dataclass(frozen=True, slots=True)
class FewerDevices:
    """A request asks for fewer devices."""

    claim: str
    request: str
    count: int


@dataclass(frozen=True, slots=True)
class LessCapacity:
    """A request asks for less of a capacity."""

    claim: str
    request: str
    capacity: str
    amount: Quantity


Change = HoldersEnd | WithoutConstraint | WithoutSelector | Tolerating | FewerDevices | LessCapacity
Rewrite = Callable[[DeviceChoice], DeviceChoice]


def ways_out(
    allocator: Allocator,
    claims: Sequence[ResourceClaim],
    holders: Mapping[str, Allocation],
    staying: Collection[str] = (),
) -> Iterator[Change]:
    """Changes with each of which the node serves the claims.

    ``holders`` has all allocations by the names of their claims, ``staying`` names those that do not end.
    """
    attempt = _Attempt(allocator, claims, holders)
    ending = _ending(attempt, staying)
    if ending is not None:
        yield ending
    for change, changed in _changes(attempt):
        if attempt.serves(changed):
            yield change


class _Attempt:
    """The question, to be asked with changes."""

    def __init__(
        self, allocator: Allocator, claims: Sequence[ResourceClaim], holders: Mapping[str, Allocation]
    ) -> None:
        self.allocator = allocator
        self.claims = claims
        self.holders = holders
        self.held = HeldDevices.of(holders.values())

    def serves(self, claims: Sequence[ResourceClaim], held: HeldDevices | None = None) -> bool:
        try:
            found = self.allocator.allocate(claims, self.held if held is None else held, TRIALS_MAX)
        except ClaimError:
            return False
        return not isinstance(found, Refusal)

    def serves_without(self, ended: Sequence[str]) -> bool:
        rest = (one for path, one in self.holders.items() if path not in ended)
        return self.serves(self.claims, HeldDevices.of(rest))


def _ending(attempt: _Attempt, staying: Collection[str]) -> HoldersEnd | None:
    """The holder whose end is enough, or several of which none may be left out."""
    here = {one.id for one in attempt.allocator.candidates}
    near = [
        path
        for path, allocation in sorted(attempt.holders.items())
        if path not in staying
        and any(device.id in here and not device.admin_access for device in allocation.devices)
    ][:HOLDERS_MAX]
    for path in near:
        if attempt.serves_without((path,)):
            return HoldersEnd((path,))
    # If the end of all is not enough, no part of them has to be tried.
    if not near or not attempt.serves_without(near):
        return None
    needed = list(near)
    for path in near:
        # One after the other is left out, until none of those that are left may be.
        fewer = [one for one in needed if one != path]
        if attempt.serves_without(fewer):
            needed = fewer
    return HoldersEnd(tuple(needed)) if len(needed) <= ENDING_TOGETHER_MAX else None


def _changes(attempt: _Attempt) -> Iterator[tuple[Change, list[ResourceClaim]]]:
    """All single changes of the claims; of counts and amounts the largest that is served."""
    for place, claim in enumerate(attempt.claims):
        for constraint in claim.constraints:
            fewer = tuple(one for one in claim.constraints if one is not constraint)
            changed = dataclasses.replace(claim, constraints=fewer)
            yield WithoutConstraint(claim.path, constraint), _put(attempt.claims, place, changed)
        for nth, request in enumerate(claim.requests):
            for choice in request.choices:
                at = _Place(attempt, place, nth, choice)
                yield from _of_choice(at, request.full_name(choice))


@dataclass(frozen=True, slots=True)
class _Place:
    """A choice in its request in its claim."""

    attempt: _Attempt
    claim: int
    request: int
    choice: DeviceChoice

    @property
    def path(self) -> str:
        return self.attempt.claims[self.claim].path

    def rewritten(self, rewrite: Rewrite) -> list[ResourceClaim]:
        """The claims with this choice written another way."""
        claim = self.attempt.claims[self.claim]
        request = claim.requests[self.request]
        choices = tuple(rewrite(one) if one is self.choice else one for one in request.choices)
        requests = list(claim.requests)
        requests[self.request] = dataclasses.replace(request, choices=choices)
        changed = dataclasses.replace(claim, requests=tuple(requests))
        return _put(self.attempt.claims, self.claim, changed)


def _of_choice(at: _Place, request: str) -> Iterator[tuple[Change, list[ResourceClaim]]]:
    for selector in at.choice.selectors:
        rest = tuple(one for one in at.choice.selectors if one != selector)
        changed = at.rewritten(_setter(selectors=rest))
        yield WithoutSelector(at.path, request, selector), changed
    for taint in _taints(at.attempt.allocator):
        toleration = DeviceToleration(taint.key, EQUAL, taint.value, taint.effect)
        changed = at.rewritten(_setter(tolerations=(*at.choice.tolerations, toleration)))
        yield Tolerating(at.path, request, taint), changed
    for count in range((at.choice.count or 1) - 1, 0, -1):
        changed = at.rewritten(_setter(count=count))
        if at.attempt.serves(changed):
            yield FewerDevices(at.path, request, count), changed
            break
    for name, asked in at.choice.capacity.items():
        for amount in _amounts_below(at.attempt, name, asked):
            changed = at.rewritten(_setter(capacity={**at.choice.capacity, name: amount}))
            if at.attempt.serves(changed):
                yield LessCapacity(at.path, request, name, amount), changed
                break


def _setter(**fields: object) -> Rewrite:
    return lambda choice: dataclasses.replace(choice, **fields)  # type: ignore[arg-type]


def _put(claims: Sequence[ResourceClaim], place: int, changed: ResourceClaim) -> list[ResourceClaim]:
    return [changed if each == place else one for each, one in enumerate(claims)]


def _taints(allocator: Allocator) -> list[DeviceTaint]:
    devices = (one.device for one in allocator.candidates)
    return list(dict.fromkeys(itertools.chain.from_iterable(one.taints for one in devices)))


def _amounts_below(attempt: _Attempt, name: str, asked: Quantity) -> list[Quantity]:
    """What devices have left of a capacity, if it is less than is asked for, the most first."""
    found = {}
    for candidate in attempt.allocator.candidates:
        has = candidate.device.capacity.get(name)
        if has is not None:
            taken = attempt.held.shares.get(candidate.id, {}).get(name, 0)
            rest = has.value.nano - taken
            if 0 < rest < asked.nano:
                found[rest] = Quantity(rest, has.value.notation)
    return [found[rest] for rest in sorted(found, reverse=True)]
