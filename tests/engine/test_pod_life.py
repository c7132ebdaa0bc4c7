"""The table of a pod's life: each state can be left, and a transition without its cause is seen."""

import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape
from tests.engine.pod_life import TRANSITIONS, PodLives


def test_every_state_is_reached_and_left() -> None:
    assert {before for before, _ in TRANSITIONS} == set(PodState)
    assert {after for _, after in TRANSITIONS} == set(PodState)


def test_a_pod_goes_through_its_life() -> None:
    told, lives = Story(), None
    lives = PodLives(told.engine)
    one = pod("a", shape(1))
    seen: list[PodState] = []
    for events in (
        (event.PodAdded(one),),
        (event.NodeSet(node("n0", 1)),),
        (event.BindRefused(one.uid),),
        (),
        (event.PodRemoved(one.uid),),
    ):
        told.at_us += 2 * SECOND_US
        lives.follow(events, told.happen(*events))
        seen.append(lives.state_by_uid.get(one.uid, PodState.ABSENT))
    expected = [PodState.WAITING, PodState.ASSUMED, PodState.BACKOFF, PodState.ASSUMED, PodState.ABSENT]
    assert seen == expected


def test_a_start_that_was_not_told_is_seen() -> None:
    told = Story()
    lives = PodLives(told.engine)
    lives.follow((), told.nodes(node("n0", 1)))
    came = event.PodAdded(pod("a", shape(1)))
    told.happen(came)
    with pytest.raises(AssertionError, match="it is bound"):
        lives.follow((came,), [])


def test_a_pod_that_runs_does_not_wait_again() -> None:
    told = Story()
    lives = PodLives(told.engine)
    lives.follow((), told.nodes(node("n0", 1)))
    runs = event.PodBound(pod("a", shape(1)), node("n0").name)
    lives.follow((runs,), told.happen(runs))
    told.engine.state.pods.mark(0, PodState.WAITING)
    with pytest.raises(AssertionError, match="BOUND to WAITING"):
        lives.follow((), [])
