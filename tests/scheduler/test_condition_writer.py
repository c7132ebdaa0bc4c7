"""What the next leader has to know arrives, however often a write fails, and only its newest word."""

from typing import Any

from tests.scheduler.test_decisions_that_last import a_node_that_rejects_pods, condition
from tests.scheduler.world import World, in_world

KIND = "gpufleet.io/PodsRejected"


def of_node(world: World) -> dict[str, Any]:
    return condition(world.objects("/api/v1/nodes")[0], KIND)


def writes(world: World) -> list[int]:
    """The codes of the answers to each write of a node's status."""
    asked = (one for one in world.server.answered if one.method == "PATCH")
    return [one.code for one in asked if one.target.startswith("/api/v1/nodes/a/status")]


def test_a_write_that_is_lost_is_made_again() -> None:
    async def story(world: World) -> None:
        world.loses("PATCH", "/nodes/a/status", times=20)
        await a_node_that_rejects_pods(world)
        await world.settle(50.0)
        assert of_node(world)["status"] == "True"

    in_world(story)


def test_what_is_overtaken_is_not_written() -> None:
    async def story(world: World) -> None:
        world.loses("PATCH", "/nodes/a/status", times=10_000)
        await a_node_that_rejects_pods(world)
        await world.settle(70.0)
        world.hindrances.clear()
        await world.settle(20.0)
        assert of_node(world)["status"] == "False"
        assert writes(world) == [200]

    in_world(story)


def test_a_node_that_is_gone_is_written_no_more() -> None:
    async def story(world: World) -> None:
        world.delays("PATCH", "/nodes/a/status", late_s=2.0)
        await a_node_that_rejects_pods(world)
        assert world.request("DELETE", "/api/v1/nodes/a") == 200
        before = len(writes(world))
        await world.settle(30.0)
        assert len(writes(world)) <= before + 1

    in_world(story)


def test_a_node_of_the_same_name_is_another_one() -> None:
    async def story(world: World) -> None:
        world.loses("PATCH", "/nodes/a/status", times=10_000)
        await a_node_that_rejects_pods(world)
        assert world.request("DELETE", "/api/v1/nodes/a") == 200
        world.node("a", gpus=4, devices=False)
        world.hindrances.clear()
        await world.settle(20.0)
        node = world.objects("/api/v1/nodes")[0]
        assert KIND not in {one["type"] for one in node["status"].get("conditions", [])}
        assert world.node_of("late") == "a"

    in_world(story)


def test_the_time_of_the_transition_moves_with_the_status() -> None:
    async def story(world: World) -> None:
        await a_node_that_rejects_pods(world)
        began = of_node(world)["lastTransitionTime"]
        await world.settle(60.0)
        over = of_node(world)["lastTransitionTime"]
        assert began < over

    in_world(story)
