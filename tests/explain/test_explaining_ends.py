"""What is said of a running pod's end: when it is evicted at the latest, and by whose word."""

import datetime as dt

from tests.explain.test_explain import answer_in
from tests.scheduler.test_eviction_planner import add_queue, budget, of
from tests.scheduler.test_overtime import started
from tests.scheduler.world import World, in_world

TWO_MINUTES = {"gpufleet.io/run-time-max": "2m"}


def later(begun: str, minutes: int) -> str:
    """So many minutes after a moment of the API, in words."""
    end = dt.datetime.fromisoformat(begun) + dt.timedelta(minutes=minutes)
    return f"at {end:%H:%M} UTC on {end:%Y-%m-%d}"


def test_a_limited_pod_is_told_when_it_is_evicted_and_by_whose_word() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=3)
        add_queue(world, "root", runTimeMax="10m")
        add_queue(world, "a", 3, parent="root")
        world.pod("by-queue", labels=of("a"))
        world.pod("by-itself", labels=of("a"), annotations=TWO_MINUTES)
        await world.settle(10)
        for name in ("by-queue", "by-itself"):
            started(world, name)
        await world.settle(10)
        begun = world.get("by-queue")["status"]["startTime"]
        (by_queue,) = (await answer_in(world, "by-queue")).notes
        assert by_queue == (
            f"it is evicted {later(begun, 10)} unless it has ended before: "
            "it may run for 10m, the runTimeMax of queue root"
        )
        (by_itself,) = (await answer_in(world, "by-itself")).notes
        assert by_itself == (
            f"it is evicted {later(begun, 2)} unless it has ended before: "
            "it may run for 2m, by its own word or that of another of its gang"
        )

    in_world(story)


def test_one_that_a_budget_keeps_is_told_that_it_may_end_at_any_moment() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        budget(world, "keep", 0, app="web")
        world.pod("p", labels=of("a", app="web"), annotations=TWO_MINUTES)
        await world.settle(10)
        started(world, "p")
        await world.settle(150)
        (note,) = (await answer_in(world, "p")).notes
        assert "it is evicted as soon as disruption budgets allow that" in note

    in_world(story)


def test_nothing_is_said_where_nobody_limits_anything() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("p", labels=of("a"))
        await world.settle(10)
        assert (await answer_in(world, "p")).notes == ()

    in_world(story)
