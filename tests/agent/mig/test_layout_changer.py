"""Changes of layouts on a simulated card: killed at every point, refused at every call, used meanwhile."""

import asyncio
import itertools
import operator
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import msgspec
import pytest

from gpufleet.agent.mig.layout_changer import HeldOnCard, LayoutChanger, Outcome
from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.partitioner import make_call
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine, User
from gpufleet.devices.simulated.partitioner import SimulatedPartitioner
from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import Call, LayoutChange, MakeGpuInstance, RemoveGpuInstance, SetMode
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from gpufleet.model.mig_boards import BOARDS
from tests.agent.set_clock import Moment, SetClock
from tests.mig.mig_cards import H100, at


class KilledError(BaseException):
    """The process is gone."""


class Card:
    """A simulated card with its driver and the record of its change; it outlives the processes.

    Process number n ends at its operation ``killed_at``, before or after it is done. ``refused`` calls are
    refused by the driver for ever.
    """

    def __init__(self, layout: Layout | None, *, model: str = "H100-80GB", held: Layout = ()) -> None:
        self.users: list[User] = []
        self.machine = Machine(
            read_description(f"gpus: [{{model: {model}}}]"), lambda: 0.0, lambda: self.users
        )
        (self.gpu,) = self.machine.gpus.values()
        self.geometry = BOARDS[self.gpu.group.model.name]
        if layout is not None:
            self.gpu.cut(layout)
        self.uuids_of_held = {
            one.uuid for one in self.gpu.instances or () if at(f"{one.profile}@{one.start}")[0] in held
        }
        self.held = HeldOnCard(frozenset(held))
        self.record: LayoutChange | None = None
        self.partitioner = SimulatedPartitioner(self.machine)
        self.refused: Callable[[Call], bool] = lambda _: False
        self.operations = 0
        self.killed_at: tuple[int, bool] | None = None

    def operate(self, work: Callable[[], None]) -> None:
        """Do it, unless the process is killed here."""
        self.operations += 1
        if self.killed_at == (self.operations, False):
            raise KilledError
        work()
        if self.killed_at == (self.operations, True):
            raise KilledError

    async def card_state(self, uuid: DeviceId) -> CardState:
        """As CardDriver."""
        return self.partitioner.card_state(uuid)

    async def make_call(self, uuid: DeviceId, call: Call) -> None:
        """As CardDriver."""
        if self.refused(call):
            raise DriverError(f"Insufficient Resources: {call}")
        self.operate(lambda: make_call(self.partitioner, uuid, call))

    async def what_is_held(self, _: DeviceId) -> HeldOnCard:
        """What pods hold."""
        return self.held

    async def write(self, change: LayoutChange) -> None:
        """As ChangeRecords."""
        self.operate(
            lambda: setattr(
                self, "record", msgspec.json.decode(msgspec.json.encode(change), type=LayoutChange)
            )
        )

    @property
    def layout(self) -> Layout | None:
        """The usable instances, and none may be half made."""
        assert not self.gpu.bare_instances, "a GPU instance without compute instance is left"
        if self.gpu.instances is None:
            return None
        return tuple(sorted(at(*(f"{one.profile}@{one.start}" for one in self.gpu.instances))))

    def run(self, change: LayoutChange) -> Outcome:
        """One process after the other, until one ends by itself; each goes on with the record."""
        while True:
            changer = LayoutChanger(self, self, SetClock(Moment()), self.what_is_held)
            self.operations = 0
            try:
                return asyncio.run(changer.carry_out(self.record or change, self.geometry))
            except KilledError:
                self.killed_at = None


def kill_points() -> Iterator[tuple[int, bool]]:
    """Before and after each operation, without end."""
    for number in itertools.count(1):
        yield from ((number, False), (number, True))


CHANGES: dict[str, tuple[str, Layout | None, Layout | None, Layout]] = {
    "a whole card is cut": ("H100-80GB", None, at("4g.40gb@0", "3g.40gb@4"), ()),
    "a card is whole again": ("H100-80GB", at("4g.40gb@0", "3g.40gb@4"), None, ()),
    "beside what is held": (
        "H100-80GB",
        at("1g.10gb@0", "1g.10gb@1", "3g.40gb@4"),
        at("2g.20gb@0", "3g.40gb@4"),
        at("3g.40gb@4"),
    ),
    "by a reset": ("A30", None, at("2g.12gb@0", "1g.6gb@2"), ()),
    "whole again by a reset": ("A30", at("2g.12gb@0"), None, ()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_killed_at_any_point_is_finished(name: str) -> None:
    model, before, wanted, held = CHANGES[name]
    for number, after in kill_points():
        card = Card(before, model=model, held=held)
        card.killed_at = (number, after)
        outcome = card.run(LayoutChange(card.gpu.uuid, before, wanted))
        assert outcome == Outcome(reached=True, layout=wanted)
        assert card.layout == wanted
        assert card.uuids_of_held <= {one.uuid for one in card.gpu.instances or ()}, (
            "what is held was made anew"
        )
        if card.killed_at is not None:
            assert number > 2
            return


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_cannot_be_finished_is_taken_back_also_where_it_is_killed(name: str) -> None:
    """The driver refuses the last instance, or the last mode; the layout before is there in the end."""
    model, before, wanted, held = CHANGES[name]
    for number, after in kill_points():
        card = Card(before, model=model, held=held)
        card.killed_at = (number, after)
        last = None if wanted is None else [one for one in sorted(wanted) if one not in (before or ())][-1]
        refused = SetMode(enabled=False) if last is None else MakeGpuInstance(last)
        card.refused = partial(operator.eq, refused)
        outcome = card.run(LayoutChange(card.gpu.uuid, before, wanted))
        assert not outcome.reached
        assert "Insufficient Resources" in outcome.problem
        assert (outcome.layout, card.layout) == (before, before)
        assert card.uuids_of_held <= {one.uuid for one in card.gpu.instances or ()}
        if card.killed_at is not None:
            assert number > 2
            return


def test_no_instance_is_lost_or_left_half_made_in_many_changes_with_kills_and_refusals() -> None:
    """One card after 150 changes drawn by chance, each with another part in use."""
    chance, layouts, card = Random(7), tuple(H100.layouts()), Card(())
    ends = {True: 0, False: 0}
    for _ in range(150):
        before = card.layout or ()
        held = tuple(one for one in before if chance.random() < 0.3)
        wanted = chance.choice([one for one in layouts if set(held) <= set(one)])
        instances = {at(f"{one.profile}@{one.start}")[0]: one.uuid for one in card.gpu.instances or ()}
        new = [one for one in wanted if one not in before]
        refused = MakeGpuInstance(chance.choice(new)) if new and chance.random() < 0.3 else None
        card.refused, card.record, card.held = (
            partial(operator.eq, refused),
            None,
            HeldOnCard(frozenset(held)),
        )
        card.killed_at = chance.randint(1, 20), chance.random() < 0.5
        outcome = card.run(LayoutChange(card.gpu.uuid, before, wanted))
        assert outcome.reached == (refused is None)
        assert card.layout == outcome.layout == (wanted if outcome.reached else before)
        kept = {at(f"{one.profile}@{one.start}")[0]: one.uuid for one in card.gpu.instances or ()}
        assert all(kept[one] == instances[one] for one in held), "what is held was made anew"
        ends[outcome.reached] += 1
    assert min(ends.values()) > 10


def test_an_instance_that_is_used_meanwhile_stays_and_the_change_is_taken_back() -> None:
    before, wanted = at("1g.10gb@0", "1g.10gb@1", "1g.10gb@2"), at("4g.40gb@0")
    card = Card(before)
    used = (card.gpu.instances or ())[1]
    card.users = [User(7, card.gpu.uuid, mig_uuid=used.uuid)]
    outcome = card.run(LayoutChange(card.gpu.uuid, before, wanted))
    assert outcome == Outcome(reached=False, layout=before, problem="1g.10gb at 1 is in use")
    assert card.layout == before
    assert used in (card.gpu.instances or ())


def test_what_a_pod_holds_counts_without_a_process() -> None:
    card = Card(at("1g.10gb@0"), held=at("1g.10gb@0"))
    outcome = card.run(LayoutChange(card.gpu.uuid, at("1g.10gb@0"), None))
    assert outcome.problem == "1g.10gb at 0 is in use"
    assert card.layout == at("1g.10gb@0")


@pytest.mark.parametrize("model", ["H100-80GB", "A30"])
def test_a_card_in_use_keeps_its_mode_and_is_not_reset(model: str) -> None:
    card = Card(None, model=model)
    card.users = [User(7, card.gpu.uuid)]
    wanted = at("7g.80gb@0") if model == "H100-80GB" else at("4g.24gb@0")
    outcome = card.run(LayoutChange(card.gpu.uuid, None, wanted))
    assert outcome == Outcome(reached=False, layout=None, problem="the card is in use as a whole")
    assert (card.layout, card.gpu.resets) == (None, 0)


def test_a_call_that_is_refused_twice_is_made_again() -> None:
    card = Card(at("1g.10gb@0"))
    refusals = iter([True, True])
    card.refused = lambda call: isinstance(call, RemoveGpuInstance) and next(refusals, False)
    assert card.run(LayoutChange(card.gpu.uuid, at("1g.10gb@0"), ())).reached
    assert card.layout == ()


def test_a_change_that_can_neither_be_finished_nor_taken_back_ends_with_what_there_is() -> None:
    card = Card(at("1g.10gb@0"))
    card.refused = lambda call: isinstance(call, MakeGpuInstance)
    outcome = card.run(LayoutChange(card.gpu.uuid, at("1g.10gb@0"), at("2g.20gb@0")))
    assert not outcome.reached
    assert outcome.layout == ()
    assert card.layout == ()


def test_instances_that_go_or_come_are_withheld() -> None:
    change = LayoutChange(DeviceId("GPU-0"), at("1g.10gb@0", "3g.40gb@4"), at("2g.20gb@0", "3g.40gb@4"))
    assert change.withheld == {*at("1g.10gb@0"), *at("2g.20gb@0")}
