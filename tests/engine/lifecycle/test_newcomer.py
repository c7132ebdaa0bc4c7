"""A pod that is placed without standing in a line gets what it would get from there."""

import random

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays import layout
from gpufleet.engine.instruction import AnyInstruction
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.ranking import best_node_by_handle
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape
from tests.engine.random_fleets import odd_node, odd_shape


def play(seed: int, policy: str) -> Story:
    """Single pods come and go, mostly one at a time; nodes change, binds fail, a queue comes."""
    chance = random.Random(seed)
    told = Story(policy, seed=seed)
    needs = [odd_shape(chance) for _ in range(8)]
    told.happen(event.TargetWorkloadSet(tuple((one, 1 + index) for index, one in enumerate(needs))))
    told.nodes(*(odd_node(chance, f"n{number}") for number in range(6)))
    for number in range(80):
        told.at_us += chance.choice((0, 1, SECOND_US))
        events: list[event.Event] = []
        known = list(told.engine.state.pods.row_by_uid)
        if known and chance.random() < 0.5:
            events.append(event.PodRemoved(chance.choice(known)))
        if known and chance.random() < 0.1:
            events.append(event.BindRefused(chance.choice(known)))
        if chance.random() < 0.1:
            events.append(event.NodeSet(odd_node(chance, f"n{chance.randrange(6)}")))
        events += [event.PodAdded(any_pod(chance, needs, number))]
        if chance.random() < 0.2:
            events.append(event.PodAdded(any_pod(chance, needs, number + 1000)))
        if chance.random() < 0.1:
            goes = (event.PodRemoved(PodUid(f"p{number}")), event.NodeRemoved(NodeName("n0")))
            events.append(chance.choice(goes))
        told.happen(*events)
        if number == 60:
            told.queue("a", priority=1)
    return told


def any_pod(chance: random.Random, needs: list[Shape], number: int) -> Pod:
    """A pod of one of two queues and three priorities."""
    return pod(f"p{number}", chance.choice(needs), queue=chance.choice("ab"), priority=number % 3)


def encoded(said: list[AnyInstruction]) -> bytes:
    """Instructions as a log has them."""
    return msgspec.json.encode(said)


@pytest.mark.parametrize("policy", ["gpufleet", "fgd"])
@pytest.mark.parametrize("seed", seeds(8))
def test_it_is_the_place_that_its_line_would_give(
    seed: int, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = encoded(play(seed, policy).said)
    monkeypatch.setattr(EngineState, "welcome", EngineState.enqueue)
    assert said == encoded(play(seed, policy).said)


def test_a_pod_that_comes_alone_stands_in_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Story()
    told.nodes(node("n", 2))

    def refuse(_state: EngineState, row: int) -> None:
        raise AssertionError(f"the pod of row {row} stands in a line")

    monkeypatch.setattr(EngineState, "enqueue", refuse)
    told.arrive(pod("alone", shape(1)))
    assert list(told.binds) == ["alone"]


@pytest.mark.parametrize("policy", ["gpufleet", "fgd"])
@pytest.mark.parametrize("seed", seeds(10))
def test_every_score_is_that_of_the_node_as_it_is(seed: int, policy: str) -> None:
    """Nodes that had no room for a shape, and were only filled since, are not scored again."""
    state = play(seed, policy).engine.state
    handles = (state.store.handle, state.shapes.rankings_handle, state.policy.handle)
    slots = [slot for slot in range(len(state.shapes.rankings.state)) if is_used(state, slot)]
    assert slots
    for slot in slots:
        best_node_by_handle(*handles, slot)
        kept = state.shapes.rankings.scores[slot].copy()
        state.shapes.rankings.state[slot, layout.RANKING_STALE] = 1
        best_node_by_handle(*handles, slot)
        assert kept.tolist() == state.shapes.rankings.scores[slot].tolist()


def is_used(state: EngineState, slot: int) -> bool:
    """True if some shape has this slot."""
    return int(state.shapes.rankings.state[slot, layout.RANKING_SHAPE]) != layout.NOT_SET
