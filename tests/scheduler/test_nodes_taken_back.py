"""A provider takes a node back: a gang with a member there leaves whole, and comes back to its place."""

from random import Random

import pytest

from gpufleet.kube.meanings.taken_back import TAKEN_BACK_TAINTS
from tests.engine.effort import seeds
from tests.scheduler.test_eviction_planner import CONTROLLED, ended, is_leaving, runs
from tests.scheduler.test_reservations import change_leaders
from tests.scheduler.world import World, in_world

SHORTEST_NOTICE_S = 30
"""Google Cloud and Azure take spot capacity back after so long, AWS after 120 s."""


def members(world: World, gang: str, *numbers: int, least: int | None = None) -> list[str]:
    """Pods that a controller makes for a gang, each with one GPU."""
    names = [f"{gang}-{number}" for number in numbers]
    words = {"gpufleet.io/gang": gang, "gpufleet.io/gang-min-members": str(least or len(numbers))}
    for name in names:
        world.pod(name, annotations=words, ownerReferences=CONTROLLED)
    return names


def take_back(world: World, node: str, taint: str = "karpenter.sh/disrupted") -> None:
    """An autoscaler, or a handler of interruptions, says that a node goes."""
    taints = [{"key": taint, "effect": "NoSchedule"}]
    assert world.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": taints}}) == 200


def gone(world: World, node: str) -> None:
    """The machine is away, and its Node with it."""
    assert world.request("DELETE", f"/api/v1/nodes/{node}") == 200
    assert world.request("DELETE", f"/apis/gpufleet.io/v1alpha1/nodedevices/{node}") == 200


async def run_on_two_nodes(world: World, *, least: int | None = None) -> list[str]:
    """A gang of two runs on two nodes with a GPU each."""
    for name in "ab":
        world.node(name, gpus=1)
    names = members(world, "train", 0, 1, least=least)
    await world.settle(5)
    for name in names:
        runs(world, name)
    await world.settle(5)
    return names


@pytest.mark.parametrize("taint", sorted(TAKEN_BACK_TAINTS))
def test_all_members_are_told_to_end_within_the_shortest_notice(taint: str) -> None:
    async def story(world: World) -> None:
        names = await run_on_two_nodes(world)
        take_back(world, "b", taint)
        await world.settle(SHORTEST_NOTICE_S / 10)
        assert all(is_leaving(world, name) for name in names)
        assert "node b goes away, and gang default/train has 1 of 2 members elsewhere" in str(
            world.events("NodeTakenBack")
        )

    in_world(story)


def test_a_gang_comes_back_whole_before_work_that_came_while_it_ran() -> None:
    async def story(world: World) -> None:
        names = await run_on_two_nodes(world)
        others = members(world, "other", 0, 1)
        await world.settle(5)
        take_back(world, "b")
        await world.settle(3)
        for name in names:
            ended(world, name)
        gone(world, "b")
        again = members(world, "train", 2, 3)
        await world.settle(5)
        assert [world.node_of(name) for name in again] == ["", ""]
        world.node("c", gpus=1)
        await world.settle(5)
        assert sorted(world.node_of(name) for name in again) == ["a", "c"]
        assert [world.node_of(name) for name in others] == ["", ""]

    in_world(story)


def test_a_gang_that_has_its_minimum_elsewhere_goes_on_there() -> None:
    async def story(world: World) -> None:
        names = await run_on_two_nodes(world, least=1)
        take_back(world, "b")
        await world.settle(SHORTEST_NOTICE_S)
        assert not any(is_leaving(world, name) for name in names)

    in_world(story)


def test_a_node_that_was_said_to_go_while_nothing_led_is_heard_of_by_the_next_leader() -> None:
    async def story(world: World) -> None:
        names = await run_on_two_nodes(world)
        await world.stop()
        take_back(world, "a")
        await change_leaders(world)
        assert all(is_leaving(world, name) for name in names)

    in_world(story)


@pytest.mark.parametrize("seed", seeds(6))
def test_no_gang_runs_in_part_whatever_node_goes_and_whenever_it_is_replaced(seed: int) -> None:
    chance = Random(seed)

    async def story(world: World) -> None:
        nodes = [f"n{number}" for number in range(6)]
        for name in nodes:
            world.node(name, gpus=1)
        sizes = {"one": 2, "two": 3}
        made = dict.fromkeys(sizes, 0)
        alive: dict[str, list[str]] = {gang: [] for gang in sizes}
        for turn in range(5):
            for gang, size in sizes.items():
                if not alive[gang]:
                    alive[gang] = members(world, gang, *range(made[gang], made[gang] + size))
                    made[gang] += size
            await world.settle(10)
            for gang in sizes:
                places = [world.node_of(name) for name in alive[gang]]
                assert all(places) or not any(places), (gang, places)
                for name in alive[gang] if all(places) else ():
                    runs(world, name)
            going = chance.choice(nodes)
            take_back(world, going, chance.choice(sorted(TAKEN_BACK_TAINTS)))
            await world.settle(chance.choice((30, 120)))
            for gang in sizes:
                leaving = [is_leaving(world, name) for name in alive[gang]]
                on_it = going in [world.node_of(name) for name in alive[gang]]
                assert leaving == [on_it] * len(leaving), (gang, leaving)
                if on_it:
                    for name in alive[gang]:
                        ended(world, name)
                    alive[gang] = []
            gone(world, going)
            nodes.remove(going)
            nodes.append(f"later-{turn}")
            if chance.random() < 0.7:
                world.node(nodes[-1], gpus=1)
            else:
                nodes.pop()

    in_world(story, seed=seed)
