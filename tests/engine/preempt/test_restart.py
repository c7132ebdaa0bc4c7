"""A new leader goes on where the last one stopped: it knows what runs, what ends and for which work."""

import random
from collections.abc import Iterable

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import AnyInstruction, Evict, Rejected, ReservedPlace
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, node, nominated, placed, pod, shape
from tests.engine.preempt.arena import NEEDS, Arena, random_gang, random_queue, random_tree
from tests.engine.preempt.test_victims_are_worth_it import arrivals


def facts(told: Story, staying: frozenset[PodUid] = frozenset()) -> list[event.Event]:
    """What a new leader is told: objects, pods with a node or without one, past use, and nominations.

    All pods that were told to end are seen to leave, but not those ``staying``.
    """
    state = told.engine.state
    queues = [event.QueueSet(one) for one in state.queues.tree.described.values()]
    nodes = [event.NodeSet(one) for one in state.fleet.nodes if one is not None]
    gangs = [event.GangSet(one.gang) for one in state.gangs.by_name.values() if one.gang is not None]
    pods: list[event.Event] = []
    for row in sorted(state.pods.row_by_uid.values(), key=lambda row: state.sequence_by_row[row]):
        one, at = state.pods.pod_at(row), state.pods.node_row(row)
        if state.departures.is_departing(one.uid) and one.uid not in staying:
            one = msgspec.structs.replace(one, leaving=True)
        if at is None or state.pods.state(row) is PodState.NOMINATED:
            pods.append(event.PodAdded(one))
        else:
            name, devices = state.fleet.node_at(at).name, state.pods.device_ids(row)
            # A pod that is bound has no start in the API before its node says so.
            started = state.pods.started_at_us
            started_us = started.get(row, 0) if row in started else None
            pods.append(event.PodBound(one, name, devices, started_us))
    # As in the live scheduler: those that run before those that wait.
    pods.sort(key=lambda one: isinstance(one, event.PodAdded))
    immunity = event.ImmunityRecalled(told.engine.immune_pods())
    kept = event.NominationsRecalled(told.engine.kept_places())
    return [told.engine.past_use(), *queues, *nodes, *gangs, *pods, immunity, kept]


def restarted(told: Story, policy: str, staying: frozenset[PodUid] = frozenset()) -> Story:
    """Another engine that has heard the facts."""
    again = Story(policy)
    again.at_us = told.at_us
    again.happen(*facts(told, staying))
    assert [one for one in again.said if isinstance(one, Rejected)] == []
    return again


def running(told: Story) -> dict[PodUid, str]:
    """The pods that hold a place of their own, and where."""
    state = told.engine.state
    rows = state.pods.row_by_uid
    has = {PodState.ASSUMED, PodState.BOUND}
    return {
        uid: state.fleet.node_at(at).name
        for uid, row in rows.items()
        if state.pods.state(row) in has and (at := state.pods.node_row(row)) is not None
    }


Kept = dict[str, tuple[frozenset[ReservedPlace], frozenset[PodUid]]]


def kept_places(told: Story) -> Kept:
    """The places that are kept for each workload, and the pods that have to leave them."""
    return {
        one.holder: (frozenset(one.places), frozenset(one.waits_for)) for one in told.engine.kept_places()
    }


def told_to_end(said: Iterable[AnyInstruction]) -> set[PodUid]:
    """The pods that are evicted."""
    return {one.uid for one in said if isinstance(one, Evict)}


def beneficiaries(said: Iterable[AnyInstruction]) -> set[str | None]:
    """The workloads for which pods are evicted."""
    return {one.beneficiary for one in said if isinstance(one, Evict)}


def in_the_middle_of_evictions(seed: int, outside: bool) -> tuple[Arena, str]:
    """Random work and gangs on three nodes, and the policy by which they are placed.

    The work is in one queue or a tree, or ``outside`` of every queue. A gang has a member more than it needs
    at times, so it may lose one and run on.

    Pods that were evicted end after a while, and come back as new ones.
    """
    chance = random.Random(seed)
    inside = random_tree(chance, 12) if seed % 2 else (random_queue(chance, "team"),)
    arena = Arena(seed, queues=() if outside else inside, nodes=3)
    for number in range(10):
        if seed % 5 and chance.random() < 0.4:
            gang = random_gang(chance, f"g{number}", chance.choice(arena.queue_names))
            needs, count = chance.choice(NEEDS), gang.min_members + chance.randint(0, 1)
            members = [arena.pod(needs, gang.queue, gang.priority, gang.name) for _ in range(count)]
            arena.happen(event.GangSet(gang), *map(event.PodAdded, members))
        arena.happen(*map(event.PodAdded, arrivals(arena, chance.randint(1, 3))))
        while arena.ending and chance.random() < 0.4:
            arena.end(arena.ending.pop(0), made_anew=True)
    return arena, "gpufleet" if seed % 3 == 0 else "best-fit"


def hears_of_its_evictions(arena: Arena) -> list[AnyInstruction]:
    """A second later the old leader sees that the pods leave which it told to end; what it says then."""
    told = arena.story
    leaving = [
        msgspec.structs.replace(arena.known(uid), leaving=True)
        for uid in told.engine.state.departures.departing()
    ]
    told.at_us += SECOND_US
    return told.happen(*map(event.PodAdded, leaving))


FOUND_LATER = (468, 469, 597, 613, 883, 903, 912, 938, 1255, 1383, 1549, 1606, 1723, 2043)
"""Seeds beyond the usual ones that once came out otherwise."""


def with_those_found(count: int) -> list[int]:
    """So many seeds, times the effort, and those that were found by a larger effort."""
    return list(dict.fromkeys((*seeds(count), *FOUND_LATER)))


IN_AND_OUTSIDE = pytest.mark.parametrize("outside", [False, True], ids=["in-queues", "outside"])


@IN_AND_OUTSIDE
@pytest.mark.parametrize("seed", with_those_found(60))
def test_in_the_middle_of_evictions_a_new_leader_tells_what_the_old_one_would_tell_next(
    seed: int, outside: bool
) -> None:
    """The old leader hears that the pods leave which it told to end. A new leader hears at the same moment
    what the API holds then: queues, nodes, gangs, pods, and the nominations that were written down.

    The new one keeps every place that the old one keeps on, for the same workload and until the same pods
    have left, and binds the same pods. It evicts for no workload for which the old one does not evict now,
    and no more pods. (It looks at everything that waits at once, so it may give room that is being left, and
    that no workload was promised, to another workload than the old one, and then choose another victim.)
    """
    arena, policy = in_the_middle_of_evictions(seed, outside)
    again = Story(policy)
    news, before = facts(arena.story), kept_places(arena.story)
    said = hears_of_its_evictions(arena)
    again.at_us = arena.story.at_us
    said_again = again.happen(*news)
    assert beneficiaries(said_again) <= beneficiaries(said)
    assert len(told_to_end(said_again)) <= len(told_to_end(said))
    assert placed(said_again) == placed(said)
    assert running(again) == running(arena.story)
    kept_on = before.items() & kept_places(arena.story).items()
    assert kept_on <= kept_places(again).items()


@IN_AND_OUTSIDE
@pytest.mark.parametrize("seed", with_those_found(30))
def test_a_leader_that_stopped_before_it_evicted_all_has_no_other_pod_evicted(
    seed: int, outside: bool
) -> None:
    """The old leader stopped between two evictions: some pods that it told to end do not leave yet.

    Each pod that a new leader evicts is one of these, or one that the old leader would have evicted next, or
    ends in place of one of these for a workload for which the old one evicted. No more pods end than before.
    """
    arena, policy = in_the_middle_of_evictions(seed, outside)
    evicted_by_us = sorted(arena.story.engine.state.departures.evicted)
    staying = frozenset(uid for uid in evicted_by_us if random.Random(f"{seed}/{uid}").random() < 0.5)
    again = Story(policy)
    news = facts(arena.story, staying)
    said = hears_of_its_evictions(arena)
    again.at_us = arena.story.at_us
    said_again = again.happen(*news)
    others = [one for one in said_again if isinstance(one, Evict) and one.uid not in staying]
    assert beneficiaries(others) <= beneficiaries([*said, *arena.evictions])
    assert len(told_to_end(said_again)) <= len(told_to_end(said) | staying)


@IN_AND_OUTSIDE
@pytest.mark.parametrize("seed", with_those_found(30))
def test_a_leader_that_stopped_before_its_first_eviction_has_no_further_pod_evicted(
    seed: int, outside: bool
) -> None:
    """The old leader decided once more and wrote its nominations down, and no pod was evicted for that yet.

    A new leader evicts for no workload for which the old one would not, and no more pods. Each place that
    the old leader keeps on is kept for the same work, or that starts.
    """
    arena, policy = in_the_middle_of_evictions(seed, outside)
    chance = random.Random(f"{seed}/late")
    decided = arena.happen(*map(event.PodAdded, arrivals(arena, chance.randint(1, 3))))
    staying = frozenset(told_to_end(decided))
    news, before = facts(arena.story, staying), kept_places(arena.story)
    said = hears_of_its_evictions(arena)
    again = Story(policy)
    again.at_us = arena.story.at_us
    said_again = again.happen(*news)
    assert beneficiaries(said_again) <= beneficiaries([*decided, *said, *arena.evictions])
    assert len(told_to_end(said_again)) <= len(told_to_end(said) | staying)
    kept_on = before.items() & kept_places(arena.story).items()
    assert {holder for holder, _ in kept_on} <= {*kept_places(again), *placed(said_again)}


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


def one_for_another() -> Story:
    """Of two pods one ends for ``first``; ``second`` goes before it but may evict none."""
    told = Story()
    told.queue("team", preemption=PreemptionPolicy(within_queue=VictimScope.LOWER_PRIORITY))
    told.nodes(node("n", 2))
    told.arrive(*(pod(f"low{number}", shape(1), queue="team") for number in range(2)))
    told.arrive(pod("first", shape(1), queue="team", priority=5))
    return told


def recalled(told: Story, *kept: KeptPlaces, staying: frozenset[PodUid] = frozenset()) -> Story:
    """A new leader that finds these nominations in place of those that the old one wrote down."""
    again = Story()
    again.at_us = told.at_us
    again.happen(*facts(told, staying)[:-1], event.NominationsRecalled(kept))
    return again


def test_an_eviction_that_was_never_asked_for_is_told_again_for_the_same_pod() -> None:
    told = one_for_another()
    (victim,) = evicted(told.said)
    again = restarted(told, "best-fit", frozenset({PodUid(victim)}))
    assert [(one.uid, one.beneficiary, one.reason) for one in again.said if isinstance(one, Evict)] == [
        (victim, "first", "preempted")
    ]
    assert kept_places(again) == kept_places(told)


def test_what_was_written_down_has_no_pod_evicted_that_the_queue_would_not_let_go() -> None:
    told = Story()
    told.queue("team", preemption=PreemptionPolicy(within_queue=VictimScope.LOWER_PRIORITY))
    told.nodes(node("n", 1))
    told.arrive(pod("equal", shape(1), queue="team", priority=5))
    told.arrive(pod("asks", shape(1), queue="team", priority=5))
    place = ReservedPlace(PodUid("asks"), NodeName("n"), (DeviceId("n/0"),))
    kept = KeptPlaces(PodUid("asks"), QueueName("team"), 1, (place,), (PodUid("equal"),))
    again = recalled(told, kept)
    assert told_to_end(again.said) == set()
    assert kept_places(again) == {}


def test_a_place_is_kept_for_the_first_although_work_that_goes_before_it_has_come() -> None:
    told = one_for_another()
    again = Story()
    again.at_us = told.at_us
    *news, kept = facts(told)
    again.happen(*news, event.PodAdded(pod("second", shape(1), queue="team", priority=9)), kept)
    assert kept_places(told).items() <= kept_places(again).items()


def test_a_new_leader_knows_which_pod_got_its_place_at_the_cost_of_which_queue() -> None:
    told = Story()
    told.nodes(node("n", 1))
    tree, poor, owner = map(QueueName, ("all", "poor", "owner"))
    told.queues(
        Queue(tree, quotas=(Quota(GPU, 0),)),
        Queue(poor, parent=tree),
        Queue(owner, parent=tree, quotas=(Quota(GPU, 1000),)),
    )
    told.arrive(pod("old", shape(1), queue="poor"))
    told.at_us += SECOND_US
    told.arrive(pod("new", shape(1), queue="owner"))
    again = restarted(told, "best-fit")
    assert evicted(told.said) == {"old": "new"}
    for story in (told, again):
        story.depart("old")
        assert placed(story.said)[-1] == "new"
    known = (event.ImmunePods(poor, (PodUid("new"),)),)
    assert told.engine.immune_pods() == again.engine.immune_pods() == known
    assert restarted(again, "best-fit").engine.immune_pods() == known


def test_members_of_a_gang_that_ends_for_two_workloads_are_told_again_for_both() -> None:
    """A member above the minimum ends for ``first``, then the others for ``second``: none was asked yet."""
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("g", 2))
    told.arrive(*(pod(f"g-{number}", shape(1), gang="g") for number in range(3)))
    told.at_us += SECOND_US
    first = evicted(told.arrive(pod("first", shape(1), priority=5)))
    second = evicted(told.arrive(pod("second", shape(1), priority=5)))
    assert (len(first), len(second)) == (1, 2)
    again = restarted(told, "best-fit", frozenset(map(PodUid, (*first, *second))))
    assert evicted(again.said) == {**first, **second}
    assert kept_places(again) == kept_places(told)


@pytest.mark.parametrize("changes", [False, True], ids=["same-leader", "new-leader"])
def test_while_a_pod_is_not_seen_to_end_no_later_work_evicts_what_earlier_work_needs_beside_it(
    changes: bool,
) -> None:
    """``mid`` ends for ``first`` and leaves a GPU over; ``earlier`` needs it and that of ``low``, and may not
    evict ``mid`` itself. ``later`` lacks but the cores of ``low``.
    """
    told = Story()
    told.nodes(node("n", 4, cpu_milli=8000))
    told.run_on(pod("mid", shape(3), priority=2), "n", "n/0", "n/1", "n/2")
    told.run_on(pod("low", shape(1, cpu_milli=4500)), "n", "n/3")
    told.at_us += SECOND_US
    told.arrive(pod("first", shape(2), priority=3))
    told.arrive(
        pod("earlier", shape(2), priority=2, created_at_us=1),
        pod("later", shape(cpu_milli=3000), priority=2, created_at_us=2),
    )
    story = restarted(told, "best-fit", frozenset({PodUid("mid")})) if changes else told
    assert evicted(story.said) == {"mid": "first"}
    story.told_to_end("mid")
    assert evicted(story.said) == {"mid": "first", "low": "earlier"}


NOT_TAKEN_UP = {
    "another pod's": {"holder": PodUid("low0")},
    "of a gang that is none": {"holder": GangName("g")},
    "on no such node": {"places": (ReservedPlace(PodUid("first"), NodeName("x"), (DeviceId("n/0"),)),)},
    "on no such device": {"places": (ReservedPlace(PodUid("first"), NodeName("n"), (DeviceId("x"),)),)},
    "on too few devices": {"places": (ReservedPlace(PodUid("first"), NodeName("n")),)},
    "of no such pod": {"places": (ReservedPlace(PodUid("x"), NodeName("n"), (DeviceId("n/0"),)),)},
    "of a pod that runs": {
        "holder": PodUid("low1"),
        "places": (ReservedPlace(PodUid("low1"), NodeName("n"), (DeviceId("n/0"),)),),
    },
    "without places": {"places": ()},
}


@pytest.mark.parametrize("change", NOT_TAKEN_UP.values(), ids=NOT_TAKEN_UP)
def test_what_cannot_have_been_kept_is_decided_anew(change: dict[str, object]) -> None:
    told = one_for_another()
    (kept,) = told.engine.kept_places()
    again = recalled(told, msgspec.structs.replace(kept, **change))
    assert kept_places(again) == kept_places(told)
    assert told_to_end(again.said) == set()


def test_a_place_where_a_pod_stays_that_is_not_waited_for_is_not_taken_up() -> None:
    told = one_for_another()
    (kept,) = told.engine.kept_places()
    (victim,) = evicted(told.said)
    taken = next(one for one in ("n/0", "n/1") if DeviceId(one) not in kept.places[0].devices)
    place = ReservedPlace(PodUid("first"), NodeName("n"), (DeviceId(taken),))
    again = recalled(told, msgspec.structs.replace(kept, places=(place,)))
    assert kept_places(again) == kept_places(told)
    assert told_to_end(again.said) == set()
    assert placed(again.depart(victim)) == ["first"]


def test_a_member_that_comes_again_keeps_its_place_although_another_has_come_since() -> None:
    told = Story()
    told.nodes(node("n", 1), node("m", 2))
    told.gangs(gang("train", 3, priority=5))
    told.run_on(pod("w0", shape(1), gang="train"), "n", "n/0")
    told.run_on(pod("low", shape(2)), "m", "m/0", "m/1")
    told.happen(event.GangStartRecalled(GangName("train")))
    told.arrive(pod("w1", shape(2), gang="train"))
    assert nominated(told.said) == {"w1": ("m", ("low",))}
    told.told_to_end("low")
    told.arrive(pod("w2", shape(2), gang="train"))
    again = Story()
    *news, kept = facts(told)
    again.happen(*news, event.GangStartRecalled(GangName("train")), kept)
    assert kept_places(again) == kept_places(told)
