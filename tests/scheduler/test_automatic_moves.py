"""Automatic moves in a cluster: what is moved, what people are told, and what a new leader makes of it."""

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.explain.inquiry import ask
from gpufleet.kube.client import Client
from gpufleet.model.defragmentation import DefragmentationRules
from tests.scheduler.test_decisions_that_last import condition
from tests.scheduler.test_eviction_planner import CONTROLLED, ended, is_leaving, kept_node, runs
from tests.scheduler.world import World, in_world

MINUTE_US = 60_000_000
RULES = DefragmentationRules(start_after_us=MINUTE_US, moves_a_day=1)


async def scattered(world: World) -> None:
    """Two nodes of four GPUs with two free ones each; a pod of four waits, and one of two can be moved."""
    for name in ("left", "right"):
        world.node(name, gpus=4)
    there = {"kubernetes.io/hostname": "left"}
    world.pod("first", gpus=4, nodeSelector=there)
    await world.settle(5)
    world.pod("a", gpus=2, labels={"app": "a"}, ownerReferences=CONTROLLED)
    await world.settle(5)
    world.delete("first")
    world.pod("stays", gpus=2, nodeSelector=there)
    await world.settle(5)
    for name in ("a", "stays"):
        runs(world, name)
    world.pod("large", gpus=4)
    await world.settle(30)
    assert (world.node_of("a"), world.node_of("stays"), world.node_of("large")) == ("right", "left", "")
    assert not is_leaving(world, "a")
    await world.settle(60)


def controller_replaces(world: World) -> None:
    """The controller of the moved pod makes another."""
    world.pod("b", gpus=2, labels={"app": "a"}, ownerReferences=CONTROLLED)


def notes(world: World, name: str) -> list[str]:
    """What the Events of a pod say, with their reasons."""
    events = world.objects("/apis/events.k8s.io/v1/events")
    return [f"{one['reason']}: {one['note']}" for one in events if one["regarding"]["name"] == name]


async def explained(world: World, name: str) -> str:
    """What ``gpufleet explain`` answers."""
    client = Client(world.transport(), world.clock, world.random)
    return str(msgspec.to_builtins(await ask(client, Settings("explain"), name, "default", lambda _: None)))


def test_a_pod_that_waits_because_room_lies_apart_is_started_by_a_move() -> None:
    async def story(world: World) -> None:
        await scattered(world)
        assert is_leaving(world, "a")
        assert kept_node(world, "large") == "right"
        (moved,) = [note for note in notes(world, "a") if note.startswith("Moved")]
        assert "it is moved so that pod default/large can start: node left keeps a place" in moved
        told = " ".join(notes(world, "large"))
        assert "moved for it: default/a to left, which costs" in told
        world.pod("pushy", gpus=2, priority=100)
        controller_replaces(world)
        await world.settle(10)
        assert (world.node_of("b"), world.node_of("pushy")) == ("left", "")
        ended(world, "a")
        await world.settle(10)
        assert world.node_of("large") == "right"
        assert "it came in place of default/a, which was moved away from right so that pod default/large" in (
            await explained(world, "b")
        )
        assert world.metrics.queues.evictions.labels("moved", "default")._value.get() == 1

    in_world(story, defragmentation=RULES)


def test_nobody_is_moved_unasked() -> None:
    async def story(world: World) -> None:
        await scattered(world)
        await world.settle(300)
        assert not is_leaving(world, "a")

    in_world(story)


def test_a_new_leader_starts_both_and_knows_what_was_spent() -> None:
    async def story(world: World) -> None:
        await scattered(world)
        assert is_leaving(world, "a")
        await world.stop()
        controller_replaces(world)
        world.start()
        await world.settle(40)
        ended(world, "a")
        await world.settle(20)
        assert (world.node_of("b"), world.node_of("large")) == ("left", "right")

    in_world(story, defragmentation=RULES)


def test_what_an_earlier_leader_moved_counts() -> None:
    async def story(world: World) -> None:
        await scattered(world)
        controller_replaces(world)
        await world.settle(10)
        ended(world, "a")
        await world.settle(10)
        assert "gpufleet.io/moved" in world.get("b")["metadata"]["annotations"]
        await world.stop()
        # The same again: of the one move a day nothing is left.
        world.delete("large")
        world.delete("stays")
        world.pod("stays", gpus=2, nodeSelector={"kubernetes.io/hostname": "right"})
        world.start()
        await world.settle(40)
        world.pod("large", gpus=4)
        await world.settle(120)
        assert world.node_of("large") == ""
        assert not is_leaving(world, "b")

    in_world(story, defragmentation=RULES)


def test_a_new_leader_keeps_the_place_of_a_moved_pod_that_is_gone() -> None:
    """As of a StatefulSet, whose pod is made anew only when the old one is gone."""

    async def story(world: World) -> None:
        await scattered(world)
        assert is_leaving(world, "a")
        world.delete("large")
        await world.settle(5)
        await world.stop()
        ended(world, "a")
        world.start()
        await world.settle(20)
        world.pod("pushy", gpus=4, priority=100)
        world.pod("second", gpus=2, priority=100)
        await world.settle(20)
        assert (world.node_of("pushy"), world.node_of("second")) == ("right", "")
        controller_replaces(world)
        await world.settle(10)
        assert (world.node_of("b"), world.node_of("second")) == ("left", "")
        assert "gpufleet.io/moved" in world.get("b")["metadata"]["annotations"]
        left = next(one for one in world.objects("/api/v1/nodes") if one["metadata"]["name"] == "left")
        assert condition(left, "gpufleet.io/PlacesKept")["status"] == "False"

    in_world(story, defragmentation=RULES)


def test_no_pod_is_moved_before_its_new_place_is_written_down() -> None:
    async def story(world: World) -> None:
        world.loses("PATCH", "/nodes/left/status", times=20)
        await scattered(world)
        assert not is_leaving(world, "a")
        await world.settle(30)
        assert is_leaving(world, "a")
        await world.stop()
        world.start()
        controller_replaces(world)
        await world.settle(20)
        ended(world, "a")
        await world.settle(20)
        assert (world.node_of("b"), world.node_of("large")) == ("left", "right")

    in_world(story, defragmentation=RULES)


def test_a_pod_stays_where_its_new_place_cannot_be_written_down() -> None:
    async def story(world: World) -> None:
        world.loses("PATCH", "/nodes/left/status", times=10_000)
        await scattered(world)
        await world.settle(180)
        assert not is_leaving(world, "a")
        assert world.node_of("large") == ""

    in_world(story, defragmentation=RULES)
