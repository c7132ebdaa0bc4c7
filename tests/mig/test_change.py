"""The next call of a change: each layout reaches each other by it, from half made instances too."""

import itertools

import msgspec

from gpufleet.mig.card_state import CardState, GpuInstance
from gpufleet.mig.change import (
    Call,
    InTheWay,
    LayoutChange,
    MakeComputeInstance,
    MakeGpuInstance,
    Reached,
    RemoveComputeInstance,
    RemoveGpuInstance,
    layout_of,
    next_call,
    turned_back,
)
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from tests.mig.mig_cards import A30, H100, at

CARD = DeviceId("GPU-0")
SMALL = tuple(A30.layouts())


def cut(layout: Layout, held: Layout = (), half: Layout = ()) -> CardState:
    """A card in MIG mode; instances of ``half`` have no compute instance."""
    instances = [
        GpuInstance(number, place, () if place in half else (0,), place in held)
        for number, place in enumerate(layout, 1)
    ]
    return CardState(mig_enabled=True, pending_mode=True, gpu_instances=tuple(instances))


def after(card: CardState, call: Call) -> CardState:
    """The card after a call about instances, as a driver that takes all of them leaves it."""
    there = {one.number: one for one in card.gpu_instances}
    match call:
        case MakeGpuInstance(place):
            free = next(number for number in itertools.count(1) if number not in there)
            there[free] = GpuInstance(free, place)
        case MakeComputeInstance(number):
            there[number] = msgspec.structs.replace(there[number], compute_instances=(0,))
        case RemoveComputeInstance(number, _):
            assert not there[number].in_use
            there[number] = msgspec.structs.replace(there[number], compute_instances=())
        case RemoveGpuInstance(number):
            assert not there.pop(number).compute_instances
        case _:
            raise AssertionError(call)
    return msgspec.structs.replace(card, gpu_instances=tuple(there.values()))


def calls(card: CardState, change: LayoutChange) -> tuple[int, CardState]:
    """How many calls it takes until the target is reached, and the card then."""
    for count in range(100):
        found = next_call(change, card, A30)
        if isinstance(found, Reached):
            return count, card
        assert not isinstance(found, InTheWay)
        card = after(card, found)
    raise AssertionError("no end")


def test_each_layout_reaches_each_other_in_two_calls_for_each_instance() -> None:
    for before, wanted in itertools.product(SMALL, SMALL):
        held = tuple(sorted(set(before) & set(wanted)))
        count, card = calls(cut(before, held), LayoutChange(CARD, before, wanted))
        assert count == 2 * len(set(before) ^ set(wanted))
        assert layout_of(card) == tuple(sorted(wanted))


def test_half_made_instances_are_finished_or_removed() -> None:
    for before, wanted in itertools.product(SMALL, SMALL):
        _, card = calls(cut(before, half=before), LayoutChange(CARD, before, wanted))
        assert layout_of(card) == tuple(sorted(wanted))


def test_what_is_in_use_turns_a_change_back_and_stays() -> None:
    before, wanted = at("1g.10gb@0", "3g.40gb@4"), at("2g.20gb@0", "2g.20gb@4")
    change = LayoutChange(CARD, before, wanted)
    card = cut(at("3g.40gb@4"), held=at("3g.40gb@4"))
    assert next_call(change, card, H100) == InTheWay("3g.40gb at 4 is in use")
    back = turned_back(change, "3g.40gb at 4 is in use")
    assert back is not None
    assert (back.target, turned_back(back, "again")) == (before, None)
    assert next_call(back, card, H100) == MakeGpuInstance(at("1g.10gb@0")[0])


def test_on_the_way_back_nothing_is_made_over_what_got_into_use() -> None:
    change = LayoutChange(CARD, at("1g.10gb@0"), at("2g.20gb@0"), going_back=True)
    card = cut(at("2g.20gb@0"), held=at("2g.20gb@0"))
    assert next_call(change, card, H100) == InTheWay("2g.20gb at 0 is in use")


def test_a_card_out_of_mig_mode_has_no_layout() -> None:
    assert layout_of(CardState(mig_enabled=False, pending_mode=False)) is None
