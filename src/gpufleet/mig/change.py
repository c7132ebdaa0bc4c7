"""A card is brought to another layout, one call to its driver at a time, and back where that cannot be done.

The next call follows from the record of the change and from the card as the driver shows it now, never from
what was done before. So a process that was killed after any call goes on where it was, once the record was
written before the first one. An instance in use is never removed, and a card is reset only while it is idle.
"""

from collections.abc import Iterator

import msgspec

from gpufleet.mig.card_state import CardState, GpuInstance
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry, MigInstance

FAILURES_MAX = 3
"""A driver that refuses a call this often refuses it for good."""


class LayoutChange(msgspec.Struct, frozen=True, rename="camel"):
    """The record of one card's change. A layout of None is a card out of MIG mode.

    ``going_back`` says that the layout before is to be had again, because of ``problem``.
    """

    card: DeviceId
    before: Layout | None
    wanted: Layout | None
    going_back: bool = False
    failures: int = 0
    problem: str = ""

    @property
    def target(self) -> Layout | None:
        """The layout that the card is brought to now."""
        return self.before if self.going_back else self.wanted

    @property
    def withheld(self) -> frozenset[MigInstance]:
        """Instances that no work may get while the change lasts: those that go, and those that come."""
        return frozenset(self.before or ()) ^ frozenset(self.wanted or ())


class SetMode(msgspec.Struct, frozen=True):
    """MIG mode is set; it may be pending until a reset."""

    enabled: bool


class ResetCard(msgspec.Struct, frozen=True):
    """The card is reset, so that a pending mode holds."""


class RemoveComputeInstance(msgspec.Struct, frozen=True):
    """A compute instance is removed."""

    gpu_instance: int
    number: int


class RemoveGpuInstance(msgspec.Struct, frozen=True):
    """A GPU instance without compute instances is removed."""

    number: int


class MakeGpuInstance(msgspec.Struct, frozen=True):
    """A GPU instance is made at its place."""

    place: MigInstance


class MakeComputeInstance(msgspec.Struct, frozen=True):
    """A compute instance is made that has all of its GPU instance."""

    gpu_instance: int


Call = SetMode | ResetCard | RemoveComputeInstance | RemoveGpuInstance | MakeGpuInstance | MakeComputeInstance


class InTheWay(msgspec.Struct, frozen=True):
    """The target cannot be had: what is in the way of it is in use."""

    problem: str


class Reached(msgspec.Struct, frozen=True):
    """The card has the target."""


def next_call(change: LayoutChange, card: CardState, geometry: MigGeometry) -> Call | InTheWay | Reached:
    """What to ask of the driver next."""
    if change.target is None:
        return _out_of_mig(card)
    if not card.mig_enabled:
        return _mode(card, enabled=True)
    return _within_mig(change, change.target, card, geometry)


def failed(change: LayoutChange, problem: str) -> LayoutChange | None:
    """The change after the driver refused a call; None where it is given up as it is."""
    if change.failures + 1 < FAILURES_MAX:
        return msgspec.structs.replace(change, failures=change.failures + 1, problem=problem)
    return turned_back(change, problem)


def turned_back(change: LayoutChange, problem: str) -> LayoutChange | None:
    """The change on its way back; None where it is on that way already."""
    if change.going_back:
        return None
    return msgspec.structs.replace(change, going_back=True, failures=0, problem=problem)


def _out_of_mig(card: CardState) -> Call | InTheWay | Reached:
    for one in card.gpu_instances:
        if one.in_use:
            return InTheWay(f"{_name(one.place)} is in use")
        return _removal(one)
    if card.mig_enabled or card.pending_mode:
        return _mode(card, enabled=False)
    return Reached()


def _mode(card: CardState, *, enabled: bool) -> Call | InTheWay:
    """Set a mode, then reset the card where that is needed. Both are for idle cards alone."""
    if card.in_use and card.mig_enabled != enabled:
        return InTheWay("the card is in use as a whole")
    return SetMode(enabled) if card.pending_mode != enabled else ResetCard()


def _within_mig(
    change: LayoutChange, target: Layout, card: CardState, geometry: MigGeometry
) -> Call | InTheWay | Reached:
    there = {one.place: one for one in card.gpu_instances}
    surplus = [one for one in card.gpu_instances if one.place not in target]
    # Surplus goes first: what is made may need its slices.
    for one in surplus:
        if not one.in_use:
            return _removal(one)
    if surplus and not change.going_back:
        return InTheWay(f"{_name(surplus[0].place)} is in use")
    # A process that was killed between both calls has left a GPU instance without its compute instance.
    for place in sorted(target):
        found = there.get(place)
        if found is not None and not found.compute_instances:
            return MakeComputeInstance(found.number)
    # On the way back an instance that got into use meanwhile stays, and what it overlaps stays away.
    taken = geometry.taken(one.place for one in card.gpu_instances)
    for place in sorted(target):
        if place not in there and not geometry.profile(place.profile).slices(place.start) & taken:
            return MakeGpuInstance(place)
    return Reached() if not surplus else InTheWay(f"{_name(surplus[0].place)} is in use")


def _removal(one: GpuInstance) -> Call:
    """The next call that removes an instance: its compute instances go before it."""
    for number in one.compute_instances:
        return RemoveComputeInstance(one.number, number)
    return RemoveGpuInstance(one.number)


def _name(place: MigInstance) -> str:
    return f"{place.profile} at {place.start}"


def layout_of(card: CardState) -> Layout | None:
    """The layout of a card, half made instances left out; None out of MIG mode."""
    if not card.mig_enabled:
        return None
    return tuple(sorted(_usable(card)))


def _usable(card: CardState) -> Iterator[MigInstance]:
    for one in card.gpu_instances:
        if one.compute_instances:
            yield one.place
