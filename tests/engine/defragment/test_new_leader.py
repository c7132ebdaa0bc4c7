"""A new leader keeps the places that are kept for moved pods, with nothing but what was written down."""

import random
from collections.abc import Iterable

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.defragment.replacements import KEPT_FOR_US
from gpufleet.engine.event import PodAdded, PodBound, ReplacementsRecalled
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, ReplacementPlace, ReplacementsKept
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName
from tests.engine.defragment.moving_fleet import MINUTE_US, TO_START, anew, confirm, moved
from tests.engine.defragment.test_automatic_start import halves
from tests.engine.defragment.test_no_circles import begin
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, placed, pod, shape
from tests.engine.preempt.test_restart import facts


def kept_of(said: Iterable[AnyInstruction]) -> dict[NodeName, tuple[ReplacementPlace, ...]]:
    """What stands in the conditions of the nodes after all of this was written."""
    return {one.node: one.places for one in said if isinstance(one, ReplacementsKept)}


def next_leader(told: Story) -> Story:
    """Another engine at the same moment, told what the API holds: nodes, pods, and what was written down."""
    state, again = told.engine.state, Story()
    again.at_us = told.at_us
    nodes = [event.NodeSet(one) for one in state.fleet.nodes if one is not None]
    bound, waiting = list[event.Event](), list[event.Event]()
    for uid, row in state.pods.row_by_uid.items():
        one, node = state.pods.pod_at(row), state.pods.node_row(row)
        if row in state.replacements:
            continue
        if uid not in told.binds and node is not None and row not in state.departures.by_row:
            bound.append(PodBound(one, state.fleet.node_at(node).name, state.pods.device_ids(row), 0))
        else:
            waiting.append(PodAdded(one))
    kept = tuple(one for places in kept_of(told.said).values() for one in places)
    recalled = [event.ImmunityRecalled(told.engine.immune_pods()), ReplacementsRecalled(kept)]
    # As in the live scheduler: pods first, and what stands for a moved pod before immunity.
    again.happen(event.DefragmentationSet(TO_START), *nodes, *bound, *waiting, *reversed(recalled))
    return again


def begun() -> tuple[Story, str, str]:
    """A move under way: its pod was seen to leave. The pod, and the node on which its place is kept."""
    told = halves()
    ((victim, (_, node)),) = moved(told.wait_s(60)).items()
    told.told_to_end(victim)
    told.depart("large")
    return told, victim, node


def test_the_place_is_kept_on_for_the_pod_that_comes_instead() -> None:
    told, victim, node = begun()
    replacement = anew(told, victim)
    again = next_leader(told)
    again.depart(victim)
    again.arrive(pod("pushy", shape(2), priority=100), pod("second", shape(2), priority=100))
    assert {one.node for one in again.said if isinstance(one, Bind)}.isdisjoint({node})
    assert placed(again.arrive(replacement)) == [replacement.uid]
    assert again.binds[replacement.uid][0] == node


def test_without_what_was_written_down_another_pod_has_the_place() -> None:
    """The test above can fail."""
    told, _, node = begun()
    told.said = [one for one in told.said if not isinstance(one, ReplacementsKept)]
    again = next_leader(told)
    again.arrive(pod("pushy", shape(2), priority=100), pod("second", shape(2), priority=100))
    assert node in {bound_to for bound_to, _ in again.binds.values()}


def test_the_place_is_kept_although_the_moved_pod_is_gone_by_then() -> None:
    told, victim, _ = begun()
    replacement = anew(told, victim)
    told.depart(victim)
    again = next_leader(told)
    again.arrive(pod("pushy", shape(4), priority=100))
    again.arrive(pod("second", shape(2), priority=100))
    assert PodUid("second") not in again.binds
    assert placed(again.arrive(replacement)) == [replacement.uid]


def test_a_pod_that_came_while_no_leader_was_there_has_its_place() -> None:
    told, victim, node = begun()
    replacement = anew(told, victim)
    told.depart(victim)
    kept = kept_of(told.said)
    # Heard by no leader: it stands in the API alone.
    state_of_old = told.engine.state
    state_of_old.pods.add(replacement)
    again = next_leader(told)
    assert again.binds[replacement.uid][0] == node
    assert kept[NodeName(node)]
    assert kept_of(again.said) == {node: ()}


def test_the_time_of_a_place_does_not_begin_anew() -> None:
    told, victim, _ = begun()
    told.depart(victim)
    told.wait_s(100)
    again = next_leader(told)
    again.arrive(pod("wide", shape(4), priority=100))
    again.arrive(pod("other", shape(2), priority=1))
    assert PodUid("other") not in again.binds
    said = again.wait_s(KEPT_FOR_US / SECOND_US - 100)
    assert placed(said) == ["other"]


def test_of_a_move_that_never_began_no_place_is_kept() -> None:
    """The leader died between its words and the eviction: the pod stays, and is moved once the time comes."""
    told = halves()
    ((_, (_, node)),) = moved(told.wait_s(60)).items()
    told.depart("large")
    again = next_leader(told)
    assert kept_of(again.said) == {node: ()}
    again.arrive(pod("other", shape(2)))
    assert PodUid("other") in again.binds


def test_whom_the_moved_pod_was_immune_to_is_not_forgotten() -> None:
    told = halves()
    immunity = told.engine.state.eviction_immunity
    immunity.take(QueueName("default"), [PodUid("a"), PodUid("b")], {PodUid("gone"): QueueName("poor")})
    ((victim, _),) = moved(told.wait_s(60)).items()
    told.told_to_end(victim)
    replacement = anew(told, victim)
    again = next_leader(told)
    again.depart(victim)
    again.happen(PodAdded(replacement))
    assert again.engine.state.eviction_immunity.immune_to(replacement.uid) == {"poor"}


@pytest.mark.parametrize("what", ["another node", "other devices", "a node that is gone", "its time is over"])
def test_what_cannot_be_kept_any_more_is_given_up(what: str) -> None:
    told, _, node = begun()
    ((_, places),) = [one for one in kept_of(told.said).items() if one[1]]
    changes: dict[str, dict[str, object]] = {
        "another node": {"node": NodeName("n9")},
        "other devices": {"devices": ()},
        "a node that is gone": {},
        "its time is over": {"until_us": told.at_us - MINUTE_US},
    }
    kept = tuple(msgspec.structs.replace(one, **changes[what]) for one in places)
    told.said.append(ReplacementsKept(NodeName(node), kept))
    if what == "a node that is gone":
        told.lose(node)
        told.said.append(ReplacementsKept(NodeName(node), kept))
    again = next_leader(told)
    assert all(not places for places in kept_of(again.said).values())
    assert not again.engine.state.replacements


def test_no_place_is_kept_for_longer_than_any_is() -> None:
    """Whatever was written down: a node that lies keeps its own room, and not for long."""
    told, victim, node = begun()
    told.depart(victim)
    kept = tuple(
        msgspec.structs.replace(one, until_us=told.at_us + 1000 * MINUTE_US)
        for one in kept_of(told.said)[NodeName(node)]
    )
    told.said.append(ReplacementsKept(NodeName(node), kept))
    again = next_leader(told)
    again.arrive(pod("wide", shape(4), priority=100))
    again.arrive(pod("other", shape(2), priority=1))
    assert PodUid("other") not in again.binds
    assert placed(again.wait_s(KEPT_FOR_US / SECOND_US)) == ["other"]


def in_force(told: Story) -> set[tuple[PodUid, NodeName, tuple[DeviceId | None, ...], int | None]]:
    """The places that are kept for moved pods that leave or are gone."""
    known, departures = told.engine.state.pods.row_by_uid, told.engine.state.departures
    return {
        (one.victim, one.node, one.devices, one.until_us)
        for places in kept_of(told.said).values()
        for one in places
        if one.victim not in known or departures.is_departing(one.victim)
    }


@pytest.mark.parametrize("seed", seeds(40))
def test_at_any_moment_of_random_moves_a_new_leader_keeps_the_same_places(seed: int) -> None:
    chance = random.Random(seed)
    told = begin(chance)
    for _ in range(chance.randint(1, 8)):
        said = told.wait_s(60)
        confirm(told, said)
        for one in said:
            if isinstance(one, Evict) and chance.random() < 0.8:
                replacement = anew(told, one.uid)
                if chance.random() < 0.7:
                    told.told_to_end(one.uid)
                if chance.random() < 0.5:
                    confirm(told, told.depart(one.uid))
                if chance.random() < 0.3:
                    confirm(told, told.arrive(replacement))
    again = Story()
    again.at_us = told.at_us
    kept = tuple(one for places in kept_of(told.said).values() for one in places)
    known = [
        one
        for one in facts(told)
        if not (isinstance(one, PodAdded) and one.pod.uid.endswith("/moved"))
        and not isinstance(one, event.NominationsRecalled | event.ImmunityRecalled)
    ]
    again.happen(*known, ReplacementsRecalled(kept), *facts(told)[-2:])
    assert in_force(again) == in_force(told)
