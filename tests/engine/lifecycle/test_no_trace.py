"""What the engine tries and takes back leaves no trace, in any of its state and whatever features meet."""

import pytest

from gpufleet.engine.arrays import layout
from gpufleet.model.identifiers import GangName
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, gang, node, pod, shape
from tests.engine.no_trace import compare, no_trace
from tests.engine.reference.drive import SideBySide
from tests.engine.reference.story import EVERYTHING, WITH_ALL_FEATURES, Mix, random_plan
from tests.engine.state_digest import digest


@pytest.mark.parametrize("mix", [EVERYTHING, WITH_ALL_FEATURES], ids=["usual", "all"])
@pytest.mark.parametrize("seed", seeds(6))
def test_searches_of_a_story_leave_no_trace(mix: Mix, seed: int) -> None:
    with no_trace() as watched:
        SideBySide(random_plan(seed, mix)).run()
    assert watched["trial"]


@pytest.mark.parametrize("table", ["pods", "devices", "nodes", "resources_free", "queue_counted"])
def test_a_trace_in_an_array_is_seen(table: str) -> None:
    reported = started()
    state = reported.engine.state
    before = digest(state)
    getattr(state.store.tables, table)[0, 0] += 1
    with pytest.raises(AssertionError, match=table):
        compare("a change", before, state)


def test_a_trace_in_an_attribute_and_in_an_order_is_seen() -> None:
    reported = started()
    state = reported.engine.state
    members = state.gangs.members(GangName("g"))
    before = digest(state)
    members.placed = dict(reversed(members.placed.items()))
    with pytest.raises(AssertionError, match="placed"):
        compare("a change", before, state)
    before = digest(state)
    members.reported = not members.reported
    with pytest.raises(AssertionError, match="reported"):
        compare("a change", before, state)


def test_a_place_that_was_tried_and_taken_back_by_hand_is_the_same() -> None:
    reported = started()
    state = reported.engine.state
    before = digest(state)
    with state.trial() as trial:
        trial.release_all([0, 1])
        assert state.store.tables.pods[layout.POD_NODE, 0] == layout.NOT_SET
    compare("a trial", before, state)


def started() -> Story:
    """A gang of two that runs, and a pod that waits."""
    reported = Story()
    reported.nodes(node("n0", 2))
    reported.gangs(gang("g", 2))
    reported.arrive(pod("a", shape(1), gang="g"), pod("b", shape(1), gang="g"), pod("c", shape(2)))
    return reported
