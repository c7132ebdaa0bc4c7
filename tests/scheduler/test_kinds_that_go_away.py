"""A definition that is deleted under a running scheduler frees nothing, unlimits nothing, and is got over."""

import pytest

from tests.scheduler.test_queue_faults import gpus, running, work
from tests.scheduler.test_queues import QUEUES, add_queue
from tests.scheduler.world import World, in_world

GROUP = "gpufleet.io"


def delete_definition(world: World, plural: str) -> None:
    """The definition of a kind begins to go, and its objects with it."""
    world.server.end(world.server.kinds[GROUP, "v1alpha1", plural])


async def take_definition(world: World, plural: str, *, slowly_s: float = 0.0) -> None:
    """The definition of a kind is deleted."""
    delete_definition(world, plural)
    await world.settle(slowly_s)
    world.server.withdraw(GROUP, plural)


@pytest.mark.parametrize("slowly_s", [0.0, 0.3, 5.0, 60.0])
def test_what_a_queue_limited_stays_limited_while_its_kind_is_gone(slowly_s: float) -> None:
    async def story(world: World) -> None:
        world.node("n")
        kind = world.server.kinds[GROUP, "v1alpha1", "fleetqueues"]
        add_queue(world, "default", quotas=gpus(2))
        add_queue(world, "a", quotas=gpus(1))
        for number in range(3):
            world.pod(f"anybody{number}")
        work(world, "a", 0, 1)
        await world.settle()
        await take_definition(world, "fleetqueues", slowly_s=slowly_s)
        work(world, "a", 2)
        world.pod("anybody3")
        await world.settle(120)
        assert running(world, "a", 0, 1, 2) == 1
        assert running(world, "anybody", 0, 1, 2, 3) == 2
        held = world.metrics.registry.get_sample_value(
            "gpufleet_scheduler_kept_objects", {"kind": "fleetqueues.gpufleet.io"}
        )
        assert held == 2
        world.server.serve(kind)
        await world.settle(60)
        assert running(world, "anybody", 0, 1, 2, 3) == 2, "it is not made anew yet, and is not forgotten"
        add_queue(world, "default", quotas=gpus(3))
        add_queue(world, "a", quotas=gpus(2))
        await world.settle(60)
        assert running(world, "anybody", 0, 1, 2, 3) == 3
        assert running(world, "a", 0, 1, 2) == 2
        held = world.metrics.registry.get_sample_value(
            "gpufleet_scheduler_kept_objects", {"kind": "fleetqueues.gpufleet.io"}
        )
        assert held == 0

    in_world(story)


def test_a_queue_that_is_not_made_anew_after_its_kind_came_back_is_forgotten_in_the_end() -> None:
    async def story(world: World) -> None:
        world.node("n")
        kind = world.server.kinds[GROUP, "v1alpha1", "fleetqueues"]
        add_queue(world, "default", quotas=gpus(1))
        world.pod("p0")
        world.pod("p1")
        await world.settle()
        await take_definition(world, "fleetqueues")
        await world.settle(3600)
        assert running(world, "p", 0, 1) == 1
        world.server.serve(kind)
        await world.settle(900)
        assert running(world, "p", 0, 1) == 2

    in_world(story)


def test_a_queue_that_is_deleted_on_purpose_is_forgotten_within_seconds() -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "default", quotas=gpus(1))
        world.pod("p0")
        world.pod("p1")
        await world.settle()
        assert running(world, "p", 0, 1) == 1
        assert world.request("DELETE", f"{QUEUES}/default") == 200
        await world.settle(10)
        assert running(world, "p", 0, 1) == 2

    in_world(story)


def test_the_kind_of_reports_goes_and_comes_back_under_a_running_scheduler() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.node("b", devices=False)
        kind = world.server.kinds[GROUP, "v1alpha1", "nodedevices"]
        for number in range(3):
            world.pod(f"p{number}", nodeSelector={"kubernetes.io/hostname": "a"})
        await world.settle()
        life = world.life
        await take_definition(world, "nodedevices", slowly_s=1.0)
        await world.settle(30)
        for number in range(3, 11):
            world.pod(f"p{number}", nodeSelector={"kubernetes.io/hostname": "a"})
        world.pod("plain", gpus=0, nodeSelector={"kubernetes.io/hostname": "a"})
        world.pod("elsewhere", nodeSelector={"kubernetes.io/hostname": "b"})
        await world.settle(60)
        assert running(world, "p", *range(11)) == 3
        assert world.node_of("plain") == "a"
        assert world.node_of("elsewhere") == "b", "no agent ever reported of this node"
        assert "readable report" in world.why("p5")
        assert world.metrics.registry.get_sample_value("gpufleet_scheduler_unreported_nodes") == 1
        world.server.serve(kind)
        world.report("a", gpus=8)
        await world.settle(20)
        assert running(world, "p", *range(11)) == 8
        devices = [world.devices_of(f"p{number}") for number in range(11) if world.node_of(f"p{number}")]
        assert len({device for of_pod in devices for device in of_pod}) == 8
        assert world.life is life

    in_world(story)


@pytest.mark.parametrize("plural", ["nodedevices", "fleetqueues"])
def test_a_scheduler_that_starts_without_a_kind_works_without_it(plural: str) -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.server.withdraw(GROUP, plural)
        world.node("a", devices=plural != "nodedevices")
        world.pod("p")
        world.start()
        await world.settle(60)
        assert world.node_of("p") == "a"

    in_world(story)
