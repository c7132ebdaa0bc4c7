"""Devices that are made ready before their pod is bound, in a simulated cluster.

What is waited for, for how long, and what a failure gives back is as in kube-scheduler's plugin
DynamicResources (KEP-5007).
"""

from gpufleet.explain.answer import State
from tests.explain.test_device_claims import answer_in
from tests.scheduler.claims import (
    claim,
    device_class,
    device_of,
    devices,
    found,
    pod,
    say_of_device,
    users_of,
)
from tests.scheduler.world import World, in_world


async def with_a_device_of_a_fabric(world: World, *nodes: str) -> None:
    """A pod has a device that is not ready yet."""
    device_class(world)
    for node in nodes:
        devices(world, node, "d0", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    claim(world, "x")
    pod(world, "p", "x")
    await world.settle()
    assert users_of(world, "x") == ["p"]


def test_a_pod_is_bound_once_its_device_is_ready_also_by_the_next_scheduler() -> None:
    async def story(world: World) -> None:
        await with_a_device_of_a_fabric(world, "a")
        allocation = found(world, "x")["status"]["allocation"]
        assert allocation["devices"]["results"][0]["bindingConditions"] == ["ready"]
        assert allocation["allocationTimestamp"].endswith("Z")
        say_of_device(world, "x", "ready", "False")
        await world.settle()
        assert world.node_of("p") == ""
        answer = await answer_in(world)
        assert answer.state is State.WAITS
        assert "it is bound once devices of its ResourceClaim x are ready" in answer.why
        assert "condition ready of device gpu.example.com/a/d0 is False ('by the fabric')" in answer.why
        assert "see the driver gpu.example.com" in answer.way_out[0]
        await world.stop()
        world.start()
        await world.settle()
        assert world.node_of("p") == ""
        say_of_device(world, "x", "ready", "True")
        await world.settle()
        assert (world.node_of("p"), device_of(world, "x")) == ("a", "a/d0")

    in_world(story)


def test_a_device_that_fails_is_given_back_and_the_owner_reads_why() -> None:
    async def story(world: World) -> None:
        await with_a_device_of_a_fabric(world, "a")
        say_of_device(world, "x", "broken", "True")
        # The driver takes the device out of its slice, and another node has one that is always ready.
        path = "/apis/resource.k8s.io/v1/resourceslices/a"
        assert world.request("PATCH", path, {"spec": {"devices": []}}) == 200
        devices(world, "b", "d1")
        await world.settle(60)
        assert (world.node_of("p"), device_of(world, "x")) == ("b", "b/d1")
        (note,) = world.events("DevicesNotGiven")
        assert "condition broken of device gpu.example.com/a/d0 is True ('by the fabric')" in note

    in_world(story)


def test_a_device_that_is_not_ready_in_ten_minutes_is_given_back_also_under_two_schedulers() -> None:
    async def story(world: World) -> None:
        await with_a_device_of_a_fabric(world, "a")
        await world.settle(300)
        await world.stop()
        world.start()
        await world.settle(280)
        assert (device_of(world, "x"), world.events("DevicesNotGiven")) == ("a/d0", [])
        path = "/apis/resource.k8s.io/v1/resourceslices/a"
        assert world.request("PATCH", path, {"spec": {"devices": []}}) == 200
        await world.settle(60)
        assert (device_of(world, "x"), users_of(world, "x")) == ("", [])
        (note,) = world.events("DevicesNotGiven")
        assert "devices of claim x were not ready in 600 s" in note

    in_world(story)
