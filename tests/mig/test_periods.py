"""What is written of a card while a period with a layout of its own is open, and after it."""

import datetime as dt

import msgspec
import pytest

from gpufleet.mig.cards import CardInstance, MigCard
from gpufleet.mig.demand import ManagedCard
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.periods import (
    OpenPeriod,
    PeriodRecord,
    PeriodWrite,
    period_write,
    read_records,
    write_records,
)
from gpufleet.mig.wanted import DemandRecord, LayoutState
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from gpufleet.model.model_errors import InputError
from tests.mig.mig_cards import H100, at

CARD = DeviceId("GPU-a")
NIGHT = OpenPeriod("nights", ("4g.40gb", "3g.40gb"))
HALVES = at("4g.40gb@0", "3g.40gb@4")
TEXTS = ("4g.40gb@0", "3g.40gb@4")
"""The one way to place both: 4g.40gb begins at slice 0 alone (NVIDIA's MIG guide)."""


def a_card(*instances: str, held: tuple[str, ...] = (), **more: object) -> ManagedCard:
    layout = tuple(CardInstance(one, one in at(*held)) for one in at(*instances))
    card = MigCard("n", CARD, H100, mig_enabled=bool(instances), instances=layout)
    return msgspec.structs.replace(ManagedCard(card, is_followed=True), **more)


def of_period(before: tuple[str, ...] | None, *, ends: bool = False) -> PeriodRecord:
    return PeriodRecord("nights", before if ends else TEXTS, before, ends)


def test_a_period_notes_the_layout_before_and_writes_its_own() -> None:
    for card, before in ((a_card(), None), (a_card("1g.10gb@6"), ("1g.10gb@6",))):
        assert period_write(card, None, NIGHT) == PeriodWrite(CARD, HALVES, of_period(before))


def test_a_period_of_whole_cards_takes_a_card_out_of_mig_mode() -> None:
    found = period_write(a_card("1g.10gb@6"), None, OpenPeriod("nights", ()))
    assert found == PeriodWrite(CARD, None, PeriodRecord("nights", None, ("1g.10gb@6",)))
    assert period_write(a_card(), None, OpenPeriod("nights", ())) is None, "it is whole already"


def test_instances_in_use_stay_where_the_layout_has_room_for_them() -> None:
    some = OpenPeriod("nights", ("1g.10gb", "3g.40gb"))
    found = period_write(a_card("1g.10gb@1", "2g.20gb@2", held=("1g.10gb@1",)), None, some)
    assert found is not None
    assert found.wish == at("1g.10gb@1", "3g.40gb@4")
    # The agent waits until the instance in the way is not in use any more.
    assert period_write(a_card("1g.10gb@1", held=("1g.10gb@1",)), None, NIGHT) == PeriodWrite(
        CARD, HALVES, of_period(("1g.10gb@1",))
    )


def test_while_it_is_open_nothing_more_is_written() -> None:
    assert period_write(a_card(wish=HALVES), of_period(None), NIGHT) is None
    assert period_write(a_card(*TEXTS), None, NIGHT) is None, "the card is so already"


def test_the_layout_before_comes_back_and_then_both_words_go() -> None:
    found = period_write(a_card(*TEXTS, wish=HALVES, state=LayoutState.SUCCESS), of_period(None), None)
    assert found == PeriodWrite(CARD, None, of_period(None, ends=True))
    on_its_way = a_card(*TEXTS, wish=None, state=LayoutState.WAITING)
    assert period_write(on_its_way, of_period(None, ends=True), None) is None
    back = a_card(wish=None, state=LayoutState.SUCCESS)
    assert period_write(back, of_period(None, ends=True), None) == PeriodWrite(CARD, msgspec.UNSET, None)


def test_a_period_that_begins_on_the_way_back_keeps_the_first_layout_before() -> None:
    before = ("1g.10gb@6",)
    going_back = a_card(*TEXTS, wish=at(*before), state=LayoutState.WAITING)
    found = period_write(going_back, of_period(before, ends=True), NIGHT)
    assert found == PeriodWrite(CARD, HALVES, of_period(before))


def test_layouts_of_others_stay_and_end_a_period_for_their_card() -> None:
    theirs: Layout = at("1g.10gb@0")
    assert period_write(a_card(wish=theirs), None, NIGHT) is None
    assert period_write(a_card(wish=theirs), of_period(None), NIGHT) == PeriodWrite(CARD, theirs, None)
    removed = period_write(a_card(), of_period(None), NIGHT)
    assert removed == PeriodWrite(CARD, msgspec.UNSET, None)


def test_a_layout_that_was_cut_on_demand_gives_way() -> None:
    cut: Layout = at("2g.20gb@4")
    record = DemandRecord(("2g.20gb@4",), dt.datetime(2026, 11, 29, tzinfo=dt.UTC), ("team/p",))
    found = period_write(a_card("2g.20gb@4", wish=cut, record=record), None, NIGHT)
    assert found == PeriodWrite(CARD, HALVES, of_period(("2g.20gb@4",)))


def test_no_layout_is_written_where_no_agent_cuts_or_the_board_lacks_a_profile() -> None:
    assert period_write(a_card(is_followed=False), None, NIGHT) is None
    with pytest.raises(InputError):
        period_write(a_card(), None, OpenPeriod("nights", ("4g.20gb",)))


def test_records_are_read_as_they_are_written() -> None:
    records = {CARD: of_period(None), DeviceId("GPU-b"): of_period(("1g.10gb@6",), ends=True)}
    assert read_records(write_records(records)) == records
    assert read_records("") == {}
    for text in ("[]", '{"GPU-a": {"policy": "p", "layout": ["1g"], "before": null}}'):
        with pytest.raises(MigPlanError):
            read_records(text)
