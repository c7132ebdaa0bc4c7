"""A new leader goes on where the last one stopped: it knows what runs, what ends and what was used."""

import random

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import Bind, Evict
from gpufleet.model.identifiers import PodUid
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, evicted, node, nominated, placed, pod, shape
from tests.engine.preempt.arena import Arena, random_queue, random_tree
from tests.engine.preempt.test_victims_are_worth_it import arrivals


def facts(told: Story) -> list[event.Event]:
    """What a new leader is told: objects, pods with a node or without one, and past use."""
    state = told.engine.state
    queues = [event.QueueSet(one) for one in state.queues.tree.described.values()]
    nodes = [event.NodeSet(one) for one in state.fleet.nodes if one is not None]
    gangs = [event.GangSet(one.gang) for one in state.gangs.by_name.values() if one.gang is not None]
    pods: list[event.Event] = []
    for row in sorted(state.sequence_by_row, key=lambda row: state.sequence_by_row[row]):
        one, at = state.pods.pod_at(row), state.pods.node_row(row)
        if state.departures.is_departing(one.uid):
            one = msgspec.structs.replace(one, leaving=True)
        if at is None or state.pods.state(row) is PodState.NOMINATED:
            pods.append(event.PodAdded(one))
        else:
            name, devices = state.fleet.node_at(at).name, state.pods.device_ids(row)
            pods.append(event.PodBound(one, name, devices, state.pods.started_at_us.get(row, told.at_us)))
    # As in the live scheduler: those that run before those that wait.
    pods.sort(key=lambda one: isinstance(one, event.PodAdded))
    return [told.engine.past_use(), *queues, *nodes, *gangs, *pods]


def restarted(told: Story, policy: str) -> Story:
    """Another engine that has heard the facts."""
    again = Story(policy)
    again.at_us = told.at_us
    again.happen(*facts(told))
    return again


def running(told: Story) -> dict[PodUid, str]:
    """Who holds a place that is its own, and where."""
    state = told.engine.state
    rows = {state.pods.pod_at(row).uid: row for row in state.sequence_by_row}
    has = {PodState.ASSUMED, PodState.BOUND}
    return {
        uid: state.fleet.node_at(at).name
        for uid, row in rows.items()
        if state.pods.state(row) in has and (at := state.pods.node_row(row)) is not None
    }


def kept_for(told: Story) -> set[PodUid]:
    """Who waits for others to leave."""
    state = told.engine.state
    return {uid for uid, row in state.pods.row_by_uid.items() if state.pods.state(row) is PodState.NOMINATED}


@pytest.mark.parametrize("seed", seeds(20))
def test_in_the_middle_of_evictions_whatever_runs_stays_and_nobody_gets_what_others_still_leave(
    seed: int,
) -> None:
    chance = random.Random(seed)
    queues = random_tree(chance, 12) if seed % 2 else (random_queue(chance, "team"),)
    arena = Arena(seed, queues=queues, nodes=3)
    for _ in range(10):
        arena.happen(*map(event.PodAdded, arrivals(arena, chance.randint(1, 3))))
        while arena.ending and chance.random() < 0.4:
            arena.end(arena.ending.pop(0), made_anew=True)
    again = restarted(arena.story, "gpufleet" if seed % 3 == 0 else "best-fit")
    assert [one for one in again.said if isinstance(one, Bind)] == []
    assert running(again) == running(arena.story)
    assert set(arena.story.engine.state.departures.departing()) <= set(
        again.engine.state.departures.departing()
    )
    # Who waits for a place is decided anew: it may be another one of theirs, but nobody else evicts.
    waited = kept_for(arena.story)
    assert {one.beneficiary for one in again.said if isinstance(one, Evict)} <= waited


def test_who_waits_for_a_pod_that_ends_waits_for_it_after_a_restart() -> None:
    told = Story()
    told.queue("team")
    told.nodes(*(node(f"n{number}", 2) for number in range(2)))
    told.arrive(*(pod(f"low{number}", shape(2), queue="team") for number in range(2)))
    said = told.arrive(pod("high", shape(2), queue="team", priority=5))
    again = restarted(told, "best-fit")
    assert evicted(again.said) == {}
    assert nominated(again.said) == nominated(said)
    (victim,) = evicted(said)
    assert placed(again.depart(victim)) == placed(told.depart(victim)) == ["high"]
