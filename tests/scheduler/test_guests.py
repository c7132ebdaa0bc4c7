"""Guests on reserved nodes in a cluster: let in, told what they are, evicted when the holder can start."""

import pytest

from tests.explain.test_explain import answer_in
from tests.scheduler.test_eviction_planner import budget, ended, is_leaving
from tests.scheduler.test_overtime import started
from tests.scheduler.test_reservations import IN_TEAM, change_leaders, team, work
from tests.scheduler.world import World, in_world

GUEST = {"gpufleet.io/interruptible": "true"}


async def a_guest_before_others_start(world: World) -> None:
    """Of two GPUs a guest has the one that is free; larger work waits for the other."""
    team(world)
    world.node("n", gpus=2)
    work(world, "old", gpus=1, run_time="20m")
    await world.settle(5)
    started(world, "old")
    work(world, "large", gpus=2)
    await world.settle(5)
    work(world, "visitor", gpus=1, **GUEST)
    await world.settle(10)
    assert world.node_of("visitor") == "n"
    started(world, "visitor")
    await world.settle(10)


@pytest.mark.parametrize("restarts", [False, True])
def test_it_is_evicted_when_the_holder_can_start(restarts: bool) -> None:
    async def story(world: World) -> None:
        await a_guest_before_others_start(world)
        if restarts:
            await change_leaders(world)
        assert "1 guest ends for its sake as soon as it can start" in world.why("large")
        assert not is_leaving(world, "visitor")
        world.finish("old")
        await world.settle(10)
        assert is_leaving(world, "visitor")
        assert world.events("Interrupted") == [
            "it may be interrupted, and pod default/large of queue team can start where it ran as a guest"
        ]
        ended(world, "visitor")
        await world.settle(10)
        assert world.node_of("large") == "n"

    in_world(story)


def test_it_is_told_for_whom_it_will_end_and_the_holder_who_does() -> None:
    async def story(world: World) -> None:
        await a_guest_before_others_start(world)
        (note,) = (await answer_in(world, "visitor")).notes
        assert note.startswith(
            "it may be interrupted, and is evicted when pod default/large of queue team can start, which "
            "holds a reservation of 1 node, expected to start at"
        )
        why = (await answer_in(world, "large")).why
        assert "waits for default/old to end, expected to start at" in why
        assert "1 guest ends for its sake as soon as it can start" in why

    in_world(story)


def test_who_is_kept_off_is_told_that_this_would_help() -> None:
    async def story(world: World) -> None:
        await a_guest_before_others_start(world)
        world.delete("visitor")
        work(world, "endless", gpus=1)
        await world.settle(10)
        ways = (await answer_in(world, "endless")).way_out
        assert 'gpufleet.io/interruptible: "true"' in ways[1]

    in_world(story)


def test_who_would_be_kept_by_a_budget_waits() -> None:
    async def story(world: World) -> None:
        team(world)
        world.node("n", gpus=2)
        budget(world, "keep", 0, app="web")
        work(world, "old", gpus=1)
        await world.settle(5)
        work(world, "large", gpus=2)
        await world.settle(5)
        world.pod("visitor", labels={**IN_TEAM, "app": "web"}, annotations=GUEST)
        await world.settle(10)
        assert world.node_of("visitor") == ""

    in_world(story)
