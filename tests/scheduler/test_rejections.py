"""A kubelet has the last word: what becomes of a pod that it turns away, of its room and of its gang."""

from typing import Any

import pytest

from tests.scheduler.world import World, in_world

LONG_S = 600.0
CONTROLLED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


def member(world: World, name: str, **more: Any) -> None:
    """A pod of a gang of two, made by a controller."""
    annotations = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
    world.pod(name, annotations=annotations, ownerReferences=CONTROLLED, **more)


def evicted(world: World, name: str) -> bool:
    return "deletionTimestamp" in world.get(name)["metadata"]


@pytest.mark.parametrize("reason", ["OutOfcpu", "UnexpectedAdmissionError"])
def test_a_rejected_pods_device_goes_to_the_next(reason: str) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("first")
        world.pod("second")
        await world.settle()
        assert world.node_of("second") == ""
        world.finish("first", "Failed", reason)
        await world.settle()
        assert world.devices_of("second") == world.devices_of("first") == ["GPU-a-0"]

    in_world(story)


def test_a_node_whose_agent_is_back_gets_pods_at_once() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=4)
        offered(world, "2026-11-21T10:00:00.000000Z")
        for number in range(3):
            world.pod(f"early-{number}")
        await world.settle(5.0)
        for number in range(3):
            world.finish(f"early-{number}", "Failed", "UnexpectedAdmissionError")
        await world.settle(5.0)
        world.pod("late")
        await world.settle(5.0)
        assert world.node_of("late") == ""
        offered(world, "2026-11-21T10:00:15.000000Z")
        await world.settle(5.0)
        assert world.node_of("late") == "a"

    in_world(story)


@pytest.mark.parametrize("reason", ["OutOfcpu", "UnexpectedAdmissionError"])
def test_a_node_that_turns_away_what_we_did_not_place_is_trusted_as_ever(reason: str) -> None:
    """Pods of another scheduler, or with a node name, are refused for want of a grant, or of room."""

    async def story(world: World) -> None:
        world.node("a", gpus=4)
        for number in range(5):
            world.pod(f"theirs-{number}", gpus=1, schedulerName="other", nodeName="a")
        await world.settle(5.0)
        for number in range(5):
            world.finish(f"theirs-{number}", "Failed", reason)
        await world.settle(5.0)
        world.pod("ours", gpus=4)
        await world.settle(5.0)
        assert world.node_of("ours") == "a"

    in_world(story)


def offered(world: World, since: str) -> None:
    """The agent of the node "a" says since when its kubelet knows the devices."""
    path = "/apis/gpufleet.io/v1alpha1/nodedevices/a"
    assert world.request("PATCH", path, {"spec": {"offeredSince": since}}) == 200


def test_a_pod_that_another_bound_and_the_kubelet_rejected_frees_its_room() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("theirs", gpus=2, schedulerName="other", nodeName="a")
        world.pod("ours", gpus=2)
        await world.settle()
        assert world.node_of("ours") == ""
        world.finish("theirs", "Failed", "OutOfnvidia.com/gpu")
        await world.settle()
        assert world.node_of("ours") == "a"

    in_world(story)


def test_a_rejected_members_replacement_completes_the_gang_elsewhere() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.node("b", gpus=1)
        member(world, "w0")
        member(world, "w1")
        await world.settle()
        rejecting = world.node_of("w1")
        world.finish("w1", "Failed", "UnexpectedAdmissionError")
        world.node("c", gpus=1)
        closed = {"spec": {"unschedulable": True}}
        assert world.request("PATCH", f"/api/v1/nodes/{rejecting}", closed) == 200
        await world.settle()
        member(world, "w2")
        await world.settle()
        assert world.node_of("w2") == "c"
        assert not evicted(world, "w0")

    in_world(story)


def test_a_gang_that_nobody_completes_after_a_rejection_is_taken_back_at_its_deadline() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        member(world, "w0")
        member(world, "w1")
        await world.settle()
        world.finish("w1", "Failed", "OutOfcpu")
        await world.settle(30.0)
        assert not evicted(world, "w0")
        await world.settle(60.0)
        assert evicted(world, "w0")

    in_world(story, gang_deadline_s=60.0)


def test_a_gang_that_ran_for_long_has_its_whole_time_to_replace_a_member() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        member(world, "w0")
        member(world, "w1")
        await world.settle(LONG_S)
        world.finish("w1", "Failed", "OutOfcpu")
        await world.settle(30.0)
        assert not evicted(world, "w0")
        member(world, "w2")
        await world.settle(60.0)
        assert world.node_of("w2") == "a"
        assert not evicted(world, "w0")

    in_world(story, gang_deadline_s=60.0)


def test_a_gang_that_ran_for_long_and_stays_short_is_taken_back_after_its_time() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        member(world, "w0")
        member(world, "w1")
        await world.settle(LONG_S)
        world.finish("w1", "Failed")
        await world.settle(100.0)
        assert evicted(world, "w0")

    in_world(story, gang_deadline_s=60.0)


def test_a_new_leader_gives_a_replacement_its_whole_time_too() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        member(world, "w0")
        member(world, "w1")
        await world.settle(LONG_S)
        await world.stop()
        world.finish("w1", "Failed", "OutOfcpu")
        world.pod("blocker", schedulerName="other", nodeName="a")
        member(world, "w2")
        world.start()
        await world.settle(50.0)
        assert not evicted(world, "w0")
        await world.settle(60.0)
        assert evicted(world, "w0")

    in_world(story, gang_deadline_s=60.0)
