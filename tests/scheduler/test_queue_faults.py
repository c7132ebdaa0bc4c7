"""Queues, nodes and namespaces that go away, or are cut below what they have: no debt, nothing negative.

Fault 40 of the list; docs/faults-live.md says where each fault is tried.
"""

from typing import Any

from tests.scheduler.test_queues import QUEUES, add_namespace, add_queue, condition, node_of, queue
from tests.scheduler.world import World, in_world

NODES = "/api/v1/nodes"


def gpus(nominal: int, **more: Any) -> list[dict[str, Any]]:
    """Quotas of so many GPUs."""
    return [{"resource": "gpu", "nominal": nominal, **more}]


def work(world: World, team: str, *numbers: int) -> None:
    """Pods of a team, one GPU each."""
    for number in numbers:
        world.pod(f"{team}{number}", labels={"gpufleet.io/queue": team})


def running(world: World, team: str, *numbers: int) -> int:
    """How many of a team's pods have a node."""
    return sum(bool(world.node_of(f"{team}{number}")) for number in numbers)


def check_nothing_is_negative(world: World) -> None:
    """Every amount and share that a status tells is at least 0."""
    for found in world.objects(QUEUES):
        status = found.get("status", {})
        told = [one for row in status.get("resources", []) for key, one in row.items() if key != "resource"]
        told += [status.get("share", "0"), *(one["value"] for one in status.get("pastUse", []))]
        assert not [one for one in told if str(one).startswith("-")], found["metadata"]["name"]


def test_fault_40_a_queue_cut_below_its_use_starts_nothing_until_enough_has_ended() -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "a", quotas=gpus(4), halfLife="1h")
        work(world, "a", 0, 1, 2)
        await world.settle()
        assert running(world, "a", 0, 1, 2) == 3
        assert world.request("PATCH", f"{QUEUES}/a", {"spec": {"quotas": gpus(1)}}) == 200
        await world.settle()
        work(world, "a", 3)
        await world.settle(60)
        assert running(world, "a", 0, 1, 2) == 3, "what runs is left alone"
        assert world.evicted() == []
        assert "uses 3 GPUs of the 1 GPU" in world.why("a3")
        assert queue(world, "a")["status"]["resources"][0]["used"] == "3"
        check_nothing_is_negative(world)
        for name in ("a0", "a1"):
            world.finish(name)
        await world.settle()
        assert world.node_of("a3") == "", "one runs, and one is all that it may have"
        world.finish("a2")
        await world.settle()
        assert world.node_of("a3") == "n"
        check_nothing_is_negative(world)

    in_world(story)


def test_fault_40_a_borrower_whose_lender_is_cut_has_no_debt_and_takes_no_more() -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "all")
        add_queue(world, "a", parent="all", quotas=gpus(2))
        add_queue(world, "b", parent="all", quotas=gpus(4))
        work(world, "a", 0, 1, 2, 3)
        await world.settle()
        assert running(world, "a", 0, 1, 2, 3) == 4
        assert world.request("PATCH", f"{QUEUES}/b", {"spec": {"quotas": gpus(0)}}) == 200
        await world.settle()
        work(world, "a", 4)
        work(world, "b", 0)
        await world.settle(60)
        assert running(world, "a", 0, 1, 2, 3) == 4
        assert (running(world, "a", 4), running(world, "b", 0)) == (0, 0)
        check_nothing_is_negative(world)

    in_world(story)


def test_fault_40_work_of_a_queue_that_is_deleted_goes_on_and_its_waiting_work_is_told() -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "all", quotas=gpus(4))
        add_queue(world, "a", parent="all", quotas=gpus(1))
        add_queue(world, "b", parent="all")
        work(world, "a", 0, 1)
        await world.settle()
        assert world.request("DELETE", f"{QUEUES}/a") == 200
        await world.settle()
        work(world, "a", 2)
        work(world, "b", 0, 1, 2, 3, 4)
        await world.settle(60)
        assert running(world, "a", 0, 1) == 2
        assert "queue a is not described" in world.why("a2")
        assert running(world, "b", 0, 1, 2, 3, 4) == 2, "what runs counts above the queue that is gone"
        check_nothing_is_negative(world)
        add_queue(world, "a", quotas=gpus(3))
        await world.settle()
        assert running(world, "a", 0, 1, 2) == 3
        assert queue(world, "a")["status"]["resources"][0]["used"] == "3"

    in_world(story)


def test_fault_40_queues_below_one_that_is_deleted_wait_for_it() -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "all", quotas=gpus(4))
        add_queue(world, "a", parent="all")
        work(world, "a", 0)
        await world.settle()
        assert world.request("DELETE", f"{QUEUES}/all") == 200
        await world.settle()
        work(world, "a", 1)
        await world.settle(60)
        assert (running(world, "a", 0), running(world, "a", 1)) == (1, 0)
        assert condition(world, "a")["reason"] == "ParentMissing"
        check_nothing_is_negative(world)
        add_queue(world, "all", quotas=gpus(4))
        await world.settle()
        assert running(world, "a", 0, 1) == 2

    in_world(story)


def test_fault_40_a_pool_that_is_deleted_leaves_no_use_behind() -> None:
    async def story(world: World) -> None:
        for name in ("n0", "n1"):
            world.node(name, gpus=2)
        add_queue(world, "a", quotas=gpus(8))
        work(world, "a", 0, 1, 2, 3)
        await world.settle()
        assert running(world, "a", 0, 1, 2, 3) == 4
        for name in ("n0", "n1"):
            assert world.request("DELETE", f"{NODES}/{name}") == 200
        await world.settle()
        work(world, "a", 4)
        await world.settle(60)
        assert running(world, "a", 4) == 0
        check_nothing_is_negative(world)
        # What the node controller does with pods of nodes that are gone.
        for number in range(4):
            world.delete(f"a{number}")
        await world.settle(30)
        assert queue(world, "a")["status"]["resources"][0]["used"] == "0"
        world.node("n2", gpus=1)
        await world.settle()
        assert running(world, "a", 4) == 1

    in_world(story)


def test_fault_40_a_namespace_that_is_deleted_leaves_its_queue_to_the_others() -> None:
    async def story(world: World) -> None:
        world.node("n")
        for name in ("gone", "stays"):
            add_namespace(world, name)
        add_queue(world, "a", quotas=gpus(1), namespaces=["gone", "stays"])
        world.pod("first", namespace="gone")
        await world.settle()
        world.pod("second", namespace="stays")
        await world.settle()
        assert (node_of(world, "first", "gone"), node_of(world, "second", "stays")) == ("n", "")
        assert world.request("DELETE", "/api/v1/namespaces/gone/pods/first", {"gracePeriodSeconds": 0}) == 200
        assert world.request("DELETE", "/api/v1/namespaces/gone") == 200
        await world.settle()
        assert node_of(world, "second", "stays") == "n"
        check_nothing_is_negative(world)

    in_world(story)
