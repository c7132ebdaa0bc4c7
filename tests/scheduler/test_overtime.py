"""Maximum run times in a cluster: who is evicted when, and what its owner is told."""

from tests.scheduler.test_eviction_planner import (
    CONTROLLED,
    QUEUES,
    Refusing,
    add_queue,
    budget,
    ended,
    is_leaving,
    of,
    runs,
)
from tests.scheduler.world import World, in_world


def test_work_that_has_run_for_as_long_as_its_queue_allows_ends_and_who_waits_gets_its_place() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "root", runTimeMax="10m")
        add_queue(world, "a", 1, parent="root", runTimeMax="20m")
        world.pod("long", labels=of("a"))
        await world.settle(10)
        runs(world, "long")
        world.pod("next", labels=of("a"))
        await world.settle(540)
        assert world.evicted() == []
        await world.settle(60)
        assert is_leaving(world, "long")
        assert world.events("RunTimeExceeded") == ["it has run for 10m, the runTimeMax of queue root"]
        ended(world, "long")
        await world.settle(10)
        assert world.node_of("next") == "n"

    in_world(story)


def test_a_pod_may_ask_for_less_and_its_event_says_so() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 2, runTimeMax="10m")
        world.pod("ours", labels=of("a"), annotations={"gpufleet.io/run-time-max": "2m"})
        world.pod("kueues", labels=of("a") | {"kueue.x-k8s.io/max-exec-time-seconds": "240"})
        await world.settle(10)
        await world.settle(120)
        assert world.evicted() == ["ours"]
        assert world.events("RunTimeExceeded") == ["it has run for 2m, as long as it may by its own word"]
        await world.settle(120)
        assert world.evicted() == ["kueues", "ours"]

    in_world(story)


def test_a_new_leader_counts_from_the_start_of_a_pod_and_evicts_nobody_twice() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1, runTimeMax="10m")
        world.pod("long", labels=of("a"))
        await world.settle(10)
        started(world, "long")
        await world.settle(300)
        await world.stop()
        world.start()
        await world.settle(250)
        assert world.evicted() == []
        await world.settle(100)
        assert is_leaving(world, "long")
        await world.settle(100)
        assert len(evictions(world)) == 1

    in_world(story)


def test_a_limit_that_is_set_later_ends_who_has_run_for_longer() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("long", labels=of("a"))
        await world.settle(310)
        assert world.request("PATCH", f"{QUEUES}/a", {"spec": {"runTimeMax": "5m"}}) == 200
        await world.settle(10)
        assert world.evicted() == ["long"]

    in_world(story)


def test_a_gang_ends_as_a_whole_once_budgets_let_all_of_it_go() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 2, runTimeMax="5m")
        budget(world, "keep", 1, role="worker")
        for name in ("g1", "g2"):
            world.pod(name, labels=of("a", gang=2, role="worker"), ownerReferences=CONTROLLED)
        await world.settle(10)
        await world.settle(360)
        assert world.evicted() == []
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep"
        assert world.request("DELETE", path) == 200
        await world.settle(30)
        assert world.evicted() == ["g1", "g2"]
        (note,) = set(world.events("RunTimeExceeded"))
        assert note == "its gang has run for 5m, the runTimeMax of queue a"

    in_world(story)


def test_a_gang_of_which_the_server_refuses_one_member_stays_whole() -> None:
    """The budget's report is late: it still allows what the server refuses."""

    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 2, runTimeMax="5m")
        budget(world, "keep", 2, role="worker")
        for name in ("g1", "g2"):
            world.pod(name, labels=of("a", gang=2, role="worker"), ownerReferences=CONTROLLED)
        await world.settle(10)
        refusing = Refusing(world, "g2")
        await world.stop()
        world.start(refusing)
        await world.settle(400)
        assert refusing.refused >= 2, "nobody asked, or not again: the story proves nothing"
        assert not is_leaving(world, "g1")

    in_world(story)


def test_work_of_another_scheduler_in_a_limited_queue_is_left_alone() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "default", runTimeMax="2m")
        world.pod("theirs", schedulerName="default-scheduler", nodeName="n")
        world.pod("ours")
        await world.settle(150)
        assert world.evicted() == ["ours"]

    in_world(story)


def started(world: World, name: str) -> None:
    """A kubelet's word since when a pod runs: now."""
    now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    assert world.request("PATCH", path, {"status": {"phase": "Running", "startTime": now}}) == 200


def evictions(world: World) -> list[str]:
    """Every eviction that was asked for."""
    return [one.target for one in world.server.answered if one.target.endswith("/eviction")]
