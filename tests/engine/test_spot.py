"""Spot nodes: who runs there goes before its equals elsewhere, and what is never evicted stays off them."""

import numpy as np
import pytest

from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, Queue, VictimScope
from tests.engine.fleet_builder import Story, evicted, gang, members, node, placed, pod, shape
from tests.engine.queueing.queue_builder import queue

SPOT = {"karpenter.sh/capacity-type": "spot"}
TEAM = Queue(queue("team").name, preemption=PreemptionPolicy(within_queue=VictimScope.LOWER_PRIORITY))


def fleet(*nodes: Node, policy: str = "best-fit") -> Story:
    """A queue whose work evicts its own of lower priority, and these nodes."""
    told = Story(policy)
    told.queues(TEAM)
    told.nodes(*nodes)
    return told


def of_team(uid: str, gpus: int = 1, *, priority: int = 0, preemptible: bool = True) -> Pod:
    """A pod of that queue."""
    return pod(uid, shape(gpus), queue="team", priority=priority, preemptible=preemptible)


def running(
    told: Story, uid: str, name: str, device: int = 0, *, for_s: float = 0, priority: int = 0
) -> None:
    """A pod runs on a node, and has for so long when the story goes on."""
    told.run_on(of_team(uid, priority=priority), name, f"{name}/{device}")
    told.wait_s(for_s)


def test_of_equals_the_one_on_a_spot_node_is_evicted_although_it_loses_more() -> None:
    told = fleet(node("a", 1), node("b", 1, labels=SPOT))
    running(told, "on-b", "b", for_s=60)
    running(told, "on-a", "a", for_s=60)
    assert list(evicted(told.arrive(of_team("high", priority=1)))) == ["on-b"]


def test_without_spot_nodes_the_least_work_is_lost() -> None:
    told = fleet(node("a", 1), node("b", 1))
    running(told, "on-b", "b", for_s=60)
    running(told, "on-a", "a", for_s=60)
    assert list(evicted(told.arrive(of_team("high", priority=1)))) == ["on-a"]


def test_a_lower_priority_and_fewer_victims_come_before_that() -> None:
    told = fleet(node("a", 1), node("b", 1, labels=SPOT))
    running(told, "low", "a", priority=0)
    running(told, "middle", "b", priority=1)
    assert list(evicted(told.arrive(of_team("high", priority=2)))) == ["low"]
    told = fleet(node("a", 2), node("b", 2, labels=SPOT))
    told.run_on(of_team("one", 2), "a", "a/0", "a/1")
    running(told, "two", "b", 0)
    running(told, "three", "b", 1)
    assert list(evicted(told.arrive(of_team("high", 2, priority=2)))) == ["one"]


def test_of_several_victims_on_one_node_the_bounds_count_it_too() -> None:
    told = fleet(node("a", 2), node("b", 2, labels=SPOT))
    for name in ("b", "a"):
        for device in range(2):
            running(told, f"{name}{device}", name, device, for_s=60)
    assert sorted(evicted(told.arrive(of_team("high", 2, priority=1)))) == ["b0", "b1"]


def test_victims_of_a_gang_come_from_spot_nodes_first() -> None:
    told = fleet(node("a", 1), node("b", 1, labels=SPOT), node("c", 1), node("d", 1, labels=SPOT))
    for name in ("b", "d", "a", "c"):
        running(told, f"on-{name}", name, for_s=60)
    told.gangs(gang("g", 2, queue="team", priority=1))
    assert sorted(evicted(told.arrive(*members("g", 2, shape(1))))) == ["on-b", "on-d"]


def test_a_gang_gives_its_surplus_on_spot_nodes_first() -> None:
    told = fleet(node("a", 1), node("b", 1, labels=SPOT), node("c", 1))
    told.gangs(gang("g", 1, queue="team"))
    told.arrive(*members("g", 3, shape(1)))
    on_spot = next(uid for uid, (name, _) in told.binds.items() if name == "b")
    told.wait_s(60)
    assert list(evicted(told.arrive(of_team("high", priority=1)))) == [on_spot]


def test_who_is_never_evicted_takes_the_room_of_work_on_a_node_that_stays() -> None:
    told = fleet(node("a", 1), node("b", 1, labels=SPOT))
    running(told, "on-a", "a", for_s=60)
    running(told, "on-b", "b", for_s=60)
    assert list(evicted(told.arrive(of_team("high", priority=1, preemptible=False)))) == ["on-a"]


@pytest.mark.parametrize("policy", ["best-fit", "fgd", "gpufleet", "random"])
def test_what_is_never_evicted_goes_to_a_node_that_stays_if_one_has_room(policy: str) -> None:
    told = Story(policy)
    told.nodes(node("a", 4, labels=SPOT), node("b", 8), node("c", 4, labels=SPOT))
    told.arrive(*(pod(f"f{number}", shape(2), preemptible=False) for number in range(6)))
    assert [told.binds[f"f{number}"][0] for number in range(4)] == ["b"] * 4
    assert {told.binds[f"f{number}"][0] for number in (4, 5)} <= {"a", "c"}, "a preference is no filter"


def test_other_work_is_placed_as_if_no_node_were_spot() -> None:
    told, plain = Story(), Story()
    told.nodes(node("a", 4, labels=SPOT), node("b", 8))
    plain.nodes(node("a", 4), node("b", 8))
    pods = [pod(f"p{number}", shape(2)) for number in range(6)]
    told.arrive(*pods)
    plain.arrive(*pods)
    assert told.binds == plain.binds


def test_members_of_a_gang_stay_off_spot_nodes_as_far_as_there_is_room() -> None:
    told = fleet(node("a", 2, labels=SPOT), node("b", 2))
    told.gangs(gang("g", 3, queue="team"))
    rows = [pod(f"g-{number}", shape(1), gang="g", preemptible=False) for number in range(3)]
    assert len(placed(told.arrive(*rows))) == 3
    assert sorted(name for name, _ in told.binds.values()) == ["a", "b", "b"]


def test_what_selects_spot_nodes_goes_there() -> None:
    told = fleet(node("a", 2, labels={**SPOT, "pool": "cheap"}), node("b", 2))
    told.arrive(pod("f", shape(1, selector=(("pool", "cheap"),)), queue="team", preemptible=False))
    assert told.binds["f"][0] == "a"


def test_models_in_an_order_come_before_nodes_that_stay() -> None:
    told = fleet(node("a", 2, labels=SPOT, model="H100"), node("t", 2, model="T4"))
    told.arrive(pod("f", shape(1, in_order=("H100", "T4")), queue="team", preemptible=False))
    assert told.binds["f"][0] == "a"


def test_labels_that_change_are_followed() -> None:
    told = fleet(node("a", 2, labels=SPOT), node("b", 2))
    rows = told.engine.state.fleet
    assert (rows.spot_nodes, rows.firm.tolist()) == (1, [rows.row_by_name[node("b", 2).name]])
    told.nodes(node("a", 2), node("b", 2, labels=SPOT))
    assert (rows.spot_nodes, rows.firm.tolist()) == (1, [rows.row_by_name[node("a", 2).name]])
    told.lose("b")
    assert (rows.spot_nodes, np.flatnonzero(rows.spot).tolist()) == (0, [])
