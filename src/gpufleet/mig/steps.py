"""The way of one card from its layout to another: mode switches, instances removed and made, in order."""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.mig.cards import MigCard, ModeSwitch
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigInstance


class SwitchMode(msgspec.Struct, frozen=True, tag="switch-mode"):
    """MIG mode is switched on or off; with ``reset`` it takes a reset of the card, which has to be idle."""

    card: DeviceId
    enabled: bool
    reset: bool


class RemoveInstance(msgspec.Struct, frozen=True, tag="remove"):
    """An instance that nothing uses is removed."""

    card: DeviceId
    instance: MigInstance


class MakeInstance(msgspec.Struct, frozen=True, tag="make"):
    """An instance is made at its place."""

    card: DeviceId
    instance: MigInstance


Step = SwitchMode | RemoveInstance | MakeInstance


def steps_to(card: MigCard, wanted: Layout | None) -> tuple[Step, ...]:
    """The steps from a card as it is to a layout; None is a card out of MIG mode.

    What is in both stays as it is. Raises InputError for a layout that the board does not have, and
    MigPlanError where an instance in use, or a card in use, is in the way.
    """
    if wanted is None:
        return tuple(_out_of_mig(card))
    card.geometry.taken(wanted)
    _check_held(card, wanted)
    return tuple(_within_mig(card, wanted))


def _check_held(card: MigCard, wanted: Layout) -> None:
    for one in card.held:
        if one not in wanted:
            problem = f"{one.profile} at {one.start} of {card.id} is in use"
            raise MigPlanError(problem, field="layout", expected="a layout with all instances in use")
    if not card.can_be_cut:
        raise MigPlanError(f"{card.id} is in use as a whole", field="layout", expected="an idle card")


def _within_mig(card: MigCard, wanted: Layout) -> Iterator[Step]:
    there = card.layout
    if not card.mig_enabled:
        yield _switch(card, enabled=True)
    for one in there:
        if one not in wanted:
            yield RemoveInstance(card.id, one)
    for one in sorted(wanted):
        if one not in there:
            yield MakeInstance(card.id, one)


def _out_of_mig(card: MigCard) -> Iterator[Step]:
    if not card.mig_enabled:
        return
    _check_held(card, ())
    # A program that holds the card itself, such as an exporter, keeps the mode from being switched.
    if card.in_use:
        raise MigPlanError(f"{card.id} is in use as a whole", field="layout", expected="an idle card")
    for one in card.layout:
        yield RemoveInstance(card.id, one)
    yield _switch(card, enabled=False)


def _switch(card: MigCard, *, enabled: bool) -> SwitchMode:
    return SwitchMode(card.id, enabled, card.mode_switch is ModeSwitch.BY_RESET)


def layout_after(layout: Layout, steps: Iterable[Step]) -> Layout:
    """The layout of one card once these steps of its are done."""
    there = set(layout)
    for step in steps:
        match step:
            case RemoveInstance(_, instance):
                there.discard(instance)
            case MakeInstance(_, instance):
                there.add(instance)
            case SwitchMode():
                pass
    return tuple(sorted(there))
