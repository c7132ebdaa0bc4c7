"""A gang of which members run is what they were bound with, whatever they say later."""

import pytest

from tests.scheduler.test_bound_terms import RESTARTS, edit, in_queue, settle
from tests.scheduler.test_eviction_planner import CONTROLLED, add_queue, runs
from tests.scheduler.world import World, in_world


async def a_gang_runs(world: World, **annotations: str) -> None:
    """Two members of a gang have both GPUs of a node."""
    world.node("n", gpus=2)
    add_queue(world, "a", 2)
    ours = {f"gpufleet.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    words = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": "1", **ours}
    for name in ("g1", "g2"):
        world.pod(name, labels=in_queue("a"), annotations=words, ownerReferences=CONTROLLED, priority=0)
    await world.settle(10)
    for name in ("g1", "g2"):
        assert world.node_of(name) == "n"
        runs(world, name)


def words_of_the_gang(world: World, how: str) -> None:
    """How the owner of a gang of which one member is surplus tries to make it dearer to evict."""
    match how:
        case "a larger minimum":
            for name in ("g1", "g2"):
                edit(world, name, gang_min_members="2")
        case "contradictions":
            edit(world, "g2", gang_min_members="2")
        case "another gang":
            edit(world, "g2", gang="h")
        case "none":
            edit(world, "g2", gang=None, gang_min_members=None)


@RESTARTS
@pytest.mark.parametrize("how", ["a larger minimum", "contradictions", "another gang", "none"])
def test_a_gang_gives_back_what_it_was_bound_to_give(how: str, restarts: bool) -> None:
    async def story(world: World) -> None:
        await a_gang_runs(world)
        words_of_the_gang(world, how)
        await settle(world, restarts=restarts)
        world.pod("high", labels=in_queue("a"), priority=100)
        await world.settle(10)
        assert len(world.evicted()) == 1

    in_world(story)


@RESTARTS
def test_a_member_that_leaves_its_gang_ends_with_it(restarts: bool) -> None:
    """A gang that lost a member is short of it, whatever the other one says by then."""

    async def story(world: World) -> None:
        await a_gang_runs(world, gang_min_members="2")
        edit(world, "g2", gang=None, gang_min_members=None)
        await settle(world, restarts=restarts)
        world.delete("g1")
        await world.settle(400)
        assert world.evicted() == ["g2"]

    in_world(story)


@RESTARTS
def test_the_patience_with_a_gang_grows_no_longer(restarts: bool) -> None:
    async def story(world: World) -> None:
        await a_gang_runs(world, gang_min_members="2")
        for name in ("g1", "g2"):
            edit(world, name, gang_stale_after="-1")
        await settle(world, restarts=restarts)
        world.delete("g1")
        await world.settle(400)
        assert world.evicted() == ["g2"]

    in_world(story)
