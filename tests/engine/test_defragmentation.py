"""Moves that make room: proven, gentle, and only of pods that may be moved and come back."""

import random

import msgspec
import pytest

from gpufleet.engine.defragment.consolidation import Defragmentation
from gpufleet.engine.defragment.moves import Move
from gpufleet.engine.event import DisruptionBudgetSet, PodAdded, PodRemoved
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, pod, shape, share
from tests.engine.plain_fleet import PlainNode
from tests.engine.relation_builder import HOST, asking, of, term, zoned
from tests.engine.state_check import check_books

ANY_NUMBER = 1000


def story(*nodes: int) -> Story:
    """Nodes n0, n1, ... with so many GPUs."""
    told = Story()
    told.nodes(*(node(f"n{number}", gpus) for number, gpus in enumerate(nodes)))
    return told


def runs(told: Story, one: Pod, on: int, *devices: int) -> None:
    """A pod turns out to run on these GPUs of a node."""
    told.run_on(one, f"n{on}", *(f"n{on}/{device}" for device in devices))


def plan(told: Story, moves_max: int = ANY_NUMBER) -> Defragmentation:
    """What would be moved now, a minute later than all that happened."""
    told.wait_s(60)
    return told.engine.defragmentation(moves_max)


def whither(moves: tuple[Move, ...] | None) -> dict[str, str]:
    """Where each pod goes."""
    return {one.uid: one.target for one in moves or ()}


def two_halves() -> Story:
    """Two nodes of four GPUs with two single pods each: no four GPUs lie together."""
    told = story(4, 4)
    for number in range(4):
        runs(told, pod(f"p{number}", shape(1)), number // 2, number % 2)
    return told


def test_one_node_is_emptied_into_the_other() -> None:
    found = plan(two_halves())
    assert len(found.moves) == 2
    assert len({one.source for one in found.moves}) == 1
    assert found.before.places == ((1, 4), (2, 2), (4, 0))
    assert found.after.places == ((1, 4), (2, 2), (4, 1))
    assert not found.cut


def test_what_is_lost_is_said_for_each_move() -> None:
    told = two_halves()
    told.happen()
    found = plan(told)
    assert [one.lost for one in found.moves] == [60_000, 60_000], (
        "a GPU for a minute each, in GPU-milliseconds"
    )


def test_the_budget_is_kept() -> None:
    found = plan(two_halves(), moves_max=1)
    assert found.moves == (), "one move alone gains nothing"
    assert found.after == found.before


def test_shares_of_two_gpus_come_together_on_one() -> None:
    told = story(2, 2)
    runs(told, pod("a", share(500)), 0, 0)
    runs(told, pod("b", share(400)), 1, 0)
    runs(told, pod("whole", shape(1)), 1, 1)
    found = plan(told)
    assert whither(found.moves) == {"b": "n0"} or whither(found.moves) == {"a": "n1"}
    assert found.after.whole_gpus == found.before.whole_gpus + 1


def test_shares_come_together_within_a_node() -> None:
    told = story(2)
    runs(told, pod("a", share(500)), 0, 0)
    runs(told, pod("b", share(500)), 0, 1)
    found = plan(told)
    assert len(found.moves) == 1
    assert (found.before.whole_gpus, found.after.whole_gpus) == (0, 1)


def test_what_lies_together_already_is_left_alone() -> None:
    told = story(4, 4)
    for number in range(4):
        runs(told, pod(f"p{number}", shape(1)), 0, number)
    assert plan(told).moves == ()


@pytest.mark.parametrize("why", ["not preemptible", "no controller", "a gang's", "protected", "young"])
def test_who_may_not_be_moved_stays(why: str) -> None:
    told = story(4, 4)
    told.queue("team", preemption=PreemptionPolicy(reclaim_after_us=3600 * SECOND_US))
    if why == "a gang's":
        told.gangs(gang("g", 4))
    if why == "protected":
        told.happen(DisruptionBudgetSet(DisruptionBudget("keep", "", LabelSelector(), 0)))
    for number in range(4):
        one = pod(
            f"p{number}",
            shape(1),
            preemptible=why != "not preemptible",
            replaceable=why != "no controller",
            gang="g" if why == "a gang's" else None,
            queue="team" if why == "young" else "default",
        )
        runs(told, one, number // 2, number % 2)
    assert plan(told).moves == ()


def test_a_budget_is_shared_by_all_moves() -> None:
    told = two_halves()
    told.happen(DisruptionBudgetSet(DisruptionBudget("keep", "", LabelSelector(), 1)))
    assert plan(told).moves == ()
    told.happen(DisruptionBudgetSet(DisruptionBudget("keep", "", LabelSelector(), 2)))
    assert len(plan(told).moves) == 2


def test_a_pod_that_keeps_away_from_its_like_is_not_moved_to_it() -> None:
    told = Story()
    told.nodes(*zoned("east", "west", gpus=4))
    alone = asking("solo", gpus=2, anti_affinity=(term("solo", key=HOST),))
    for number in range(2):
        told.run_on(of(f"p{number}", "solo", alone), f"n{number}")
    assert plan(told).moves == ()


def waits(told: Story, *pods: Pod) -> None:
    """Pods come, and find no place."""
    told.wait_s(60)
    told.arrive(*pods)
    assert not set(told.binds) & {one.uid for one in pods}


def test_a_waiting_pod_gets_the_fewest_moves_that_let_it_start() -> None:
    told = story(4, 4)
    for number in range(3):
        runs(told, pod(f"many{number}", shape(1)), 0, number)
    runs(told, pod("few", shape(1), priority=9), 1, 0)
    waits(told, pod("large", shape(4)))
    assert whither(told.engine.moves_for(PodUid("large"), ANY_NUMBER)) == {"few": "n0"}
    assert told.engine.moves_for(PodUid("large"), 0) is None


def test_nobody_is_sent_back_to_wait() -> None:
    told = story(4, 4)
    runs(told, pod("a", shape(1)), 0, 0)
    runs(told, pod("b", shape(4)), 1, 0, 1, 2, 3)
    waits(told, pod("large", shape(4)))
    assert told.engine.moves_for(PodUid("large"), ANY_NUMBER) is None


def test_a_waiting_gang_gets_its_moves() -> None:
    told = two_halves()
    told.gangs(gang("g", 2))
    waits(told, pod("other", shape(4)))
    told.depart("other")
    told.arrive(*members("g", 2, shape(2)))
    assert {"g-0", "g-1"} <= set(told.binds), "it fits as it is"
    told = story(4, 4, 4)
    for number in range(3):
        runs(told, pod(f"p{number}", shape(1)), number, 0)
    told.gangs(gang("g", 2))
    waits(told, *members("g", 2, shape(4)))
    moves = told.engine.moves_for(GangName("g"), ANY_NUMBER)
    assert len(whither(moves)) == 2
    assert len(set(whither(moves).values())) == 1


def test_who_has_a_place_needs_no_moves() -> None:
    told = two_halves()
    assert told.engine.moves_for(PodUid("p0"), ANY_NUMBER) is None
    assert told.engine.moves_for(PodUid("nobody"), ANY_NUMBER) is None


def account(told: Story) -> dict[NodeName, PlainNode]:
    """The nodes with everybody who is booked, recounted."""
    state = told.engine.state
    found = {one.name: PlainNode(one) for one in state.fleet.nodes if one is not None}
    for row, one in enumerate(state.pods.pods):
        on = None if one is None else state.pods.node_row(row)
        if one is not None and on is not None:
            held = tuple(device for device in state.pods.device_ids(row) if device is not None)
            found[state.fleet.node_at(on).name].take(one.shape, held)
    return found


def scattered(chance: random.Random) -> Story:
    """A fleet on which many pods came and most of them went."""
    told = Story(chance.choice(("best-fit", "fgd", "gpufleet")), seed=chance.randrange(1000))
    told.nodes(*(node(f"n{number}", chance.choice((2, 4, 8))) for number in range(chance.randint(2, 6))))
    needs = (shape(1), shape(1), shape(2), shape(4), share(250), share(500), share(500, 10_000))
    uids = [f"p{number}" for number in range(40)]
    told.arrive(*(pod(uid, chance.choice(needs), replaceable=chance.random() < 0.8) for uid in uids))
    # Nobody else waits: whoever came before would take the room.
    told.depart(*(uid for uid in uids if chance.random() < 0.6 or uid not in told.binds))
    pods = told.engine.state.pods
    for uid, row in list(pods.row_by_uid.items()):
        told.run_on(pods.pod_at(row), *(told.binds[uid][0], *told.binds[uid][1]))
    told.wait_s(60)
    return told


@pytest.mark.parametrize("seed", range(30))
def test_a_plan_leaves_no_trace_and_can_be_carried_out_move_by_move(seed: int) -> None:
    told = scattered(random.Random(seed))
    before = account(told)
    found = told.engine.defragmentation(ANY_NUMBER)
    check_books(told.engine.state, account(told))
    assert {name: one.free_amounts() for name, one in account(told).items()} == {
        name: one.free_amounts() for name, one in before.items()
    }
    assert found.after.gpu_milli == found.before.gpu_milli
    assert sum(size * count for size, count in found.after.places) >= sum(
        size * count for size, count in found.before.places
    )
    assert bool(found.moves) == (found.after != found.before)
    state = told.engine.state
    for one in found.moves:
        known = state.pods.pod_at(state.pods.row_by_uid[one.uid])
        anew = msgspec.structs.replace(known, uid=PodUid(f"{one.uid}-anew"))
        told.happen(PodRemoved(one.uid))
        assert account(told)[one.target].fits(known.shape), f"{one.uid} does not fit on {one.target}"
        place = account(told)[one.target]
        idle = {held.device.id: held.idle_milli for held in place.devices}
        fitting = sorted(place.fitting_devices(known.shape), key=lambda device: (idle[device], device))
        told.run_on(anew, one.target, *fitting[: known.shape.gpu.count])


@pytest.mark.parametrize("seed", range(30))
def test_what_is_moved_for_a_workload_lets_it_start_and_has_a_place_itself(seed: int) -> None:
    chance = random.Random(seed)
    told = scattered(chance)
    told.arrive(pod("large", shape(chance.choice((2, 4, 8)))))
    if "large" in told.binds:
        return
    moves = told.engine.moves_for(PodUid("large"), ANY_NUMBER)
    check_books(told.engine.state, account(told))
    if not moves:
        return
    state = told.engine.state
    moved = [state.pods.pod_at(state.pods.row_by_uid[one.uid]) for one in moves]
    told.happen(*(PodRemoved(one.uid) for one in moves))
    assert "large" in told.binds
    anew = [msgspec.structs.replace(one, uid=PodUid(f"{one.uid}-anew")) for one in moved]
    told.happen(*map(PodAdded, sorted(anew, key=lambda one: -one.shape.gpu.total_milli)))
    assert {one.uid for one in anew} <= set(told.binds)
