"""Steps from one layout to another: every layout of a board reaches every other, and what is in use stays."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.mig.cards import ModeSwitch
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.steps import MakeInstance, RemoveInstance, SwitchMode, steps_to
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from gpufleet.model.model_errors import InputError
from tests.mig.mig_cards import A30, H100, Driver, a_card, at

LAYOUTS = tuple(H100.layouts())
SMALL = tuple(A30.layouts())


def reach(board: str, before: Layout, wanted: Layout, held: Layout) -> None:
    """The steps, done by a driver that refuses what real ones refuse, and no step more than needed."""
    card = a_card(held=held, unused=tuple(one for one in before if one not in held), board=board)
    driver = Driver(card)
    steps = steps_to(card, wanted)
    driver.do(steps)
    assert driver.there == set(wanted)
    assert len(steps) == len(set(before) ^ set(wanted))


def test_each_of_25_layouts_reaches_each_other_whatever_is_in_use() -> None:
    for before, wanted in itertools.product(SMALL, SMALL):
        common = sorted(set(before) & set(wanted))
        for count in range(len(common) + 1):
            for held in itertools.combinations(common, count):
                reach("A30", before, wanted, held)


@given(st.integers(0, len(LAYOUTS) - 1))
def test_each_of_722_layouts_reaches_others_with_all_in_use_that_they_share(shift: int) -> None:
    for place, before in enumerate(LAYOUTS):
        wanted = LAYOUTS[(place + shift) % len(LAYOUTS)]
        reach("H100-80GB", before, wanted, tuple(sorted(set(before) & set(wanted))))


def test_a_layout_without_an_instance_in_use_is_refused() -> None:
    for before in LAYOUTS[1::7]:
        for wanted in LAYOUTS[::23]:
            if not set(before) <= set(wanted):
                with pytest.raises(MigPlanError, match="is in use"):
                    steps_to(a_card(held=before), wanted)


def test_a_card_out_of_mig_mode_is_switched_first_and_last() -> None:
    card = a_card(mig_enabled=False, mode_switch=ModeSwitch.BY_RESET)
    (instance,) = at("7g.80gb@0")
    made = SwitchMode(DeviceId("GPU-0"), enabled=True, reset=True), MakeInstance(DeviceId("GPU-0"), instance)
    assert steps_to(card, (instance,)) == made
    gone = (
        RemoveInstance(DeviceId("GPU-0"), instance),
        SwitchMode(DeviceId("GPU-0"), enabled=False, reset=False),
    )
    assert steps_to(a_card(unused=(instance,)), None) == gone
    assert steps_to(card, None) == ()


def test_a_card_in_use_keeps_its_mode() -> None:
    with pytest.raises(MigPlanError, match="GPU-0 is in use as a whole"):
        steps_to(a_card(mig_enabled=False, in_use=True), at("7g.80gb@0"))
    with pytest.raises(MigPlanError, match="GPU-0 is in use as a whole"):
        steps_to(a_card(in_use=True), None)
    with pytest.raises(MigPlanError, match=r"1g.10gb at 3 of GPU-0 is in use"):
        steps_to(a_card(held=at("1g.10gb@3")), None)


def test_a_layout_that_the_board_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="instances overlap"):
        steps_to(a_card(), at("4g.40gb@0", "2g.20gb@2"))
