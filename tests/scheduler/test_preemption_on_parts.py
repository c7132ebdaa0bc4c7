"""Room is made by priority on parts of GPUs too: MIG instances, replicas in time, fractions."""

from typing import Any

import pytest

from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.resource_names import NVIDIA_SHARED
from tests.engine.fleet_builder import shape
from tests.scheduler.test_mig_as_gpus import PLACES, a_cut_node
from tests.scheduler.world import World, in_world

SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
REPLICAS = ("1g.10gb@0::0", "1g.10gb@0::1")


def a_node_of(world: World, **parts: str) -> None:
    """A node whose kubelet counts these parts of GPUs by their names."""
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", **parts}
    world.add(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}},
            "spec": {},
            "status": {"allocatable": allocatable},
        }
    )


def asks(world: World, name: str, resource: str, priority: int, **spec: Any) -> None:
    world.pod(name, gpus=0, resources={resource: "1"}, priority=priority, **spec)


async def victims(world: World) -> list[str]:
    """The pods that were told to end; they end, and what follows comes about."""
    await world.settle()
    found = world.evicted()
    for name in found:
        world.delete(name)
    await world.settle()
    return found


def test_an_instance_is_freed_of_the_profile_that_is_asked_for() -> None:
    async def story(world: World) -> None:
        a_node_of(world, **{SMALL: "2", LARGE: "1"})
        asks(world, "large", LARGE, 0)
        asks(world, "small", SMALL, 1)
        asks(world, "other", SMALL, 2)
        await world.settle()
        asks(world, "urgent", SMALL, 5)
        assert await victims(world) == ["small"]
        assert world.node_of("urgent") == "a"
        asks(world, "equal", LARGE, 0)
        await world.settle()
        assert world.evicted() == ["small"]
        assert world.node_of("equal") == ""

    in_world(story)


@pytest.mark.parametrize("resource", [SMALL, NVIDIA_SHARED])
def test_a_part_of_a_gpu_that_another_scheduler_gave_out_is_no_service(resource: str) -> None:
    async def story(world: World) -> None:
        a_node_of(world, **{resource: "1"})
        asks(world, "theirs", resource, 0, schedulerName="default-scheduler", nodeName="a")
        await world.settle()
        asks(world, "urgent", resource, 5)
        assert await victims(world) == ["theirs"]
        assert world.node_of("urgent") == "a"

    in_world(story)


def test_what_another_scheduler_placed_without_any_part_of_a_gpu_is_a_service() -> None:
    assert Pod(PodUid("u"), shape(cpu_milli=1000), foreign=True).is_service
    assert not Pod(PodUid("u"), shape(1), foreign=True).is_service


@pytest.mark.parametrize("places", [PLACES[:2], REPLICAS])
def test_an_instance_or_replica_under_the_name_of_a_gpu_is_freed(places: tuple[str, ...]) -> None:
    async def story(world: World) -> None:
        a_cut_node(world, places)
        world.pod("low", priority=1)
        await world.settle()
        world.pod("lowest", priority=0)
        await world.settle()
        kept = world.devices_of("low")
        freed = world.grant_of("lowest")["containers"]
        world.pod("urgent", priority=5)
        assert await victims(world) == ["lowest"]
        assert world.grant_of("urgent")["containers"] == freed
        assert world.devices_of("low") == kept

    in_world(story)


def test_a_fraction_is_freed_on_the_card_where_the_lowest_priorities_suffice() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2, shares=True)
        share = {"gpufleet.io/gpu-fraction": "0.5"}
        for number, priority in enumerate((3, 1, 2, 2)):
            resources = {"gpufleet.io/gpu-share": "1"}
            name = f"half-{number}"
            world.pod(name, gpus=0, resources=resources, annotations=share, priority=priority)
            await world.settle()
        halves = {f"half-{number}": world.devices_of(f"half-{number}") for number in range(4)}
        assert len({*halves["half-0"], *halves["half-2"]}) == 2
        world.pod("urgent", priority=5)
        ended = await victims(world)
        freed = world.devices_of("urgent")
        assert sorted(ended) == [name for name, devices in halves.items() if devices == freed]
        priorities = {"half-0": 3, "half-1": 1, "half-2": 2, "half-3": 2}
        assert max(priorities[name] for name in ended) == 2

    in_world(story)
