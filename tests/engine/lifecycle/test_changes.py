"""The stream of changes: what has to be looked at again because of which, and that each change is said."""

import re
from pathlib import Path

import pytest

from gpufleet.engine import event
from gpufleet.engine.lifecycle import changes
from gpufleet.engine.lifecycle.changes import CHANGES_VICTIMS, FREES_ROOM, Change, Changes
from tests.engine.fleet_builder import Story, node, pod, shape

ENGINE = Path(changes.__file__).parents[1]


def test_an_interest_counts_its_kinds_alone() -> None:
    stream = Changes()
    one = stream.interest_in([Change.NODE, Change.BUDGET])
    for change in (Change.NODE, Change.POD_PLACED, Change.BUDGET, Change.NODE):
        stream.note(change)
    assert one.count == 3


def test_what_was_taken_is_not_pending() -> None:
    room, taken = (stream := Changes()).room, []
    for change in (Change.POD_LEFT, Change.POD_PLACED):
        stream.note(change)
        taken += [(room.is_pending, room.take(), room.is_pending)]
    assert taken == [(True, True, False), (False, False, False)], "a pod more makes no room"


def test_every_change_is_of_interest_and_of_one_kind() -> None:
    assert set(FREES_ROOM) | set(CHANGES_VICTIMS) == set(Change)
    assert not set(FREES_ROOM) & set(CHANGES_VICTIMS), "what frees room is offered before searches look again"


@pytest.mark.parametrize("change", Change)
def test_every_change_is_said_somewhere(change: Change) -> None:
    said = re.compile(rf"\.note\(Change\.{change.name}\)")
    assert any(said.search(path.read_text()) for path in ENGINE.rglob("*.py"))


def test_room_that_falls_free_is_offered_once() -> None:
    told = Story()
    told.nodes(node("n0", 1))
    told.arrive(pod("runs", shape(1)), pod("waits", shape(1)))
    stream = told.engine.state.changes
    before = stream.victims.count
    told.happen(event.PodRemoved(pod("runs").uid))
    assert not stream.room.is_pending
    assert stream.victims.count == before + 2, "the room was offered, and the pod that waited was placed"
