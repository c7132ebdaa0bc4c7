"""What keeps a device from a choice: each obstacle by itself, beside what is held and nothing else.

A search stops at the first obstacle of a device. Here all are found, since the way out of a refusal goes
over the device with the fewest.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.constraints import attribute_values
from gpufleet.dra_allocation.matching import ChoiceMatcher
from gpufleet.dra_allocation.pools import Candidate
from gpufleet.dra_allocation.slices import DeviceTaint
from gpufleet.dra_allocation.trial import Trial
from gpufleet.model.quantity import Quantity


class ObstacleKind(enum.Enum):
    """Kinds of obstacles, those that are hardest to change first."""

    SELECTOR = "selector"
    NODE = "node"
    ATTRIBUTE = "attribute"
    CAPACITY = "capacity"
    UNSERVED = "unserved"
    TAINT = "taint"
    GROUP = "group"
    DEPARTED = "departed"
    COUNTER = "counter"
    ROOM = "room"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One obstacle. ``detail`` is the selector, the attribute, the taint or the amounts."""

    kind: ObstacleKind
    detail: str = ""


def obstacles(matcher: ChoiceMatcher, candidate: Candidate, trial: Trial) -> tuple[Obstacle, ...]:
    """All that keeps the device from the choice, the hardest first; nothing where it could be taken alone."""
    return (*_of_content(matcher, candidate), *_of_use(matcher, candidate, trial))


def taint_words(taint: DeviceTaint) -> str:
    """The taint as people write it: key=value:effect."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _of_content(matcher: ChoiceMatcher, candidate: Candidate) -> Iterator[Obstacle]:
    """What would keep it away if nothing were held."""
    try:
        for where, expression in matcher.selectors_against(candidate):
            yield Obstacle(ObstacleKind.SELECTOR, f"{expression} ({where})")
    except ClaimError as error:
        yield Obstacle(ObstacleKind.SELECTOR, str(error))
    if not candidate.is_reached:
        yield Obstacle(ObstacleKind.NODE)
    # A device alone meets every constraint, but for one of which it lacks the attribute.
    for constraint in matcher.claim.constraints:
        if constraint.concerns(matcher.request, matcher.choice):
            if not attribute_values(candidate.id.driver, candidate.device, constraint.attribute):
                yield Obstacle(ObstacleKind.ATTRIBUTE, constraint.attribute)
    yield from _of_capacity(matcher, candidate)
    if not candidate.is_served:
        yield Obstacle(ObstacleKind.UNSERVED)
    for taint in matcher.taints_against(candidate):
        yield Obstacle(ObstacleKind.TAINT, taint_words(taint))


def _of_capacity(matcher: ChoiceMatcher, candidate: Candidate) -> Iterator[Obstacle]:
    try:
        could_serve = matcher.could_serve(candidate)
    except ClaimError as error:
        yield Obstacle(ObstacleKind.CAPACITY, str(error))
        return
    if could_serve:
        return
    has = candidate.device.capacity
    for name, asked in matcher.choice.capacity.items():
        if name not in has:
            yield Obstacle(ObstacleKind.CAPACITY, f"it has no {name}, and {asked} is asked for")
        elif has[name].value < asked:
            yield Obstacle(ObstacleKind.CAPACITY, f"{name} is {has[name].value}, and {asked} is asked for")
        elif matcher.amounts(candidate) is None:
            yield Obstacle(ObstacleKind.CAPACITY, f"its policy for {name} gives no {asked}")


def _of_use(matcher: ChoiceMatcher, candidate: Candidate, trial: Trial) -> Iterator[Obstacle]:
    """What keeps it away because something is held."""
    is_free = trial.is_free(matcher, candidate)
    if candidate.draws and trial.draws_counters(matcher, candidate):
        if not trial.has_fitting_group(candidate):
            yield Obstacle(ObstacleKind.GROUP)
        departed = trial.departed(candidate)
        if departed:
            yield Obstacle(ObstacleKind.DEPARTED, ", ".join(departed))
        if is_free:
            # A device that is held is short of what its own holder draws, which says nothing more.
            yield from _of_counters(candidate, trial)
    if not is_free:
        yield Obstacle(ObstacleKind.HELD)
    elif candidate.device.is_shareable:
        yield from _of_room(matcher, candidate, trial)


def _of_counters(candidate: Candidate, trial: Trial) -> Iterator[Obstacle]:
    left = trial.counters_left(candidate)
    for use in candidate.device.counter_uses:
        for name, needs in use.counters.items():
            # More may be held than there is by now, since drivers change their slices.
            rest = max(0, left[use.counter_set, name])
            if needs.nano > rest:
                has = Quantity(rest, needs.notation)
                detail = f"{use.counter_set}/{name}: it needs {needs}, {has} is left"
                yield Obstacle(ObstacleKind.COUNTER, detail)


def _of_room(matcher: ChoiceMatcher, candidate: Candidate, trial: Trial) -> Iterator[Obstacle]:
    try:
        amounts = matcher.amounts(candidate) or {}
    except ClaimError:
        # Told already, as an obstacle of the capacity.
        return
    for name, needs in amounts.items():
        value = candidate.device.capacity[name].value
        rest = value.nano - trial.taken_nano(candidate, name)
        # What is more than the whole device is an obstacle of its capacity.
        if rest < needs.nano <= value.nano:
            has = Quantity(max(0, rest), value.notation)
            yield Obstacle(ObstacleKind.ROOM, f"{name}: it needs {needs}, {has} is left")
