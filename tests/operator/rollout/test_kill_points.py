"""A rollout that is killed after any of its actions goes on where it was.

The process remembers nothing, so its death can only lose the actions that it had not carried out. Every
number of actions is tried as the last one, for a rollout that succeeds and for one that turns back.
"""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.model.rollout_settings import NodeCount
from gpufleet.operator.rollout.stamp import RolloutPhase
from tests.operator.rollout.fleet import NEW, OLD, Fleet, Node, node, pod, with_settings

SETTINGS = with_settings(canaries=2, nodes_at_once=NodeCount(2))


def succeeds() -> Fleet:
    work = [pod("plain"), pod("trains", writes_checkpoints=True)]
    moves = pod("moves", writes_checkpoints=True, place="d")
    return Fleet(
        node("a", *work),
        node("b", pod("other"), moves),
        node("c", pod("third")),
        node("d"),
        settings=SETTINGS,
    )


def turns_back() -> Fleet:
    broken = frozenset({OLD})
    return Fleet(
        node("a", pod("w")), node("b", pod("v"), works=broken), node("c", pod("u")), settings=SETTINGS
    )


def backfills() -> Fleet:
    """Others start beside work that ends, one of them when the node is closed to all already."""
    patient = msgspec.structs.replace(SETTINGS, drain_s=3600)
    ends = pod("ends", left_s=1800)
    first = node("a", ends, pod("moves", place="d"), waiting_s=[600, 900, 2400], late_s=40)
    return Fleet(first, node("b", pod("other", place="d")), node("d"), settings=patient)


@pytest.mark.parametrize("story", [succeeds, turns_back, backfills])
def test_every_kill_point_ends_alike(story: Callable[[], Fleet]) -> None:
    whole = story()
    whole.run()

    assert whole.actions_done > 20
    for killed_after in range(whole.actions_done):
        fleet = story()
        fleet.killed_after = killed_after
        fleet.run()

        assert fleet.kills == 1
        assert fleet.images() == whole.images()
        assert fleet.evictions == whole.evictions
        assert set(fleet.evictions.values()) == {1}
        assert fleet.backfilled == whole.backfilled
        assert not any("beside" in uid for uid in fleet.evictions), (
            "what starts beside a drain is left to end"
        )
        assert not any(one.open_until_us for one in fleet.nodes.values())
        assert fleet.progress is not None
        assert whole.progress is not None
        assert fleet.progress.state is whole.progress.state
        assert not any(one.is_cordoned or one.check_image for one in fleet.nodes.values())
        # A phase that had begun keeps its deadline: no node ever has two for the same phase.
        assert all(len(deadlines) == 1 for deadlines in fleet.deadlines_us.values())
        assert all(len(ends) == 1 for ends in fleet.asked.values())


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(1, 8))
    nodes = [draw(one_node(number)) for number in range(count)]
    chosen = with_settings(
        canaries=draw(st.integers(0, 3)),
        nodes_at_once=NodeCount(draw(st.integers(1, 3))),
        failures_most=NodeCount(draw(st.integers(0, 100)), is_percent=True),
        soak_s=draw(st.sampled_from([0, 60])),
    )
    return Fleet(*nodes, settings=chosen)


@st.composite
def one_node(draw: st.DrawFn, number: int) -> Node:
    work = [
        pod(
            f"p{number}-{index}",
            is_guarded=draw(st.booleans()),
            writes_checkpoints=draw(st.booleans()),
            place=draw(st.sampled_from([None, "elsewhere"])),
            left_s=draw(st.sampled_from([None, None, 100, 280, 900])),
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    return node(
        f"n{number}",
        *work,
        works=draw(st.sampled_from([frozenset({OLD, NEW}), frozenset({OLD}), frozenset[str]()])),
        image=draw(st.sampled_from([OLD, OLD, NEW, ""])),
        waiting_s=draw(st.sampled_from([[], [30, 90, 250]])),
        late_s=draw(st.sampled_from([0, 40])),
        is_cordoned=draw(st.sampled_from([False, False, False, True])),
        is_ready=draw(st.sampled_from([True, True, True, False, None])),
        has_opted_out=draw(st.sampled_from([False, False, False, True])),
        is_skipped=draw(st.sampled_from([False, False, False, True])),
        blocker=draw(st.sampled_from(["", "", "", "secure boot refuses unsigned modules"])),
    )


@given(fleets(), st.lists(st.integers(0, 60), max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_fleet_comes_to_rest_whatever_is_killed(fleet: Fleet, kills: list[int]) -> None:
    foreign = {name for name, one in fleet.nodes.items() if one.is_cordoned}
    untouched = {
        name: one.image
        for name, one in fleet.nodes.items()
        if one.is_cordoned or one.has_opted_out or one.is_skipped or one.blocker or not one.is_ready
    }
    for killed_after in kills:
        fleet.killed_after = killed_after
        fleet.pass_s(200)
    # A node that cannot begin is looked at again for ever, so time ends before the rollout does.
    fleet.pass_s(4 * 3600)

    assert all(count == 1 for count in fleet.evictions.values())
    assert not any("beside" in uid for uid in fleet.evictions)
    assert not any(one.open_until_us for one in fleet.nodes.values())
    assert fleet.under_way_most <= max(fleet.settings.canaries, fleet.settings.nodes_at_once.value)
    for name, one in fleet.nodes.items():
        assert one.stamp is None or not one.stamp.is_under_way
        assert not one.check_image
        assert not any(pod.is_asked_to_move for pod in one.pods), "work moves off a node that is open"
        is_failed = one.stamp is not None and one.stamp.phase is RolloutPhase.FAILED
        is_ours = one.stamp is not None and one.stamp.is_cordon_ours
        assert one.is_cordoned == (name in foreign or (is_failed and is_ours))
        if name in untouched:
            assert one.image == untouched[name]
        if one.image == NEW and (NEW not in one.works) and name not in untouched and one.stamp is not None:
            assert is_failed, "a driver that does not work stays only where none of before can be had"
    assert fleet.progress is not None
