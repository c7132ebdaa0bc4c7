"""MIG instances under the name of whole GPUs: placed one by one, granted by place, booked as held."""

from typing import Any

from tests.scheduler.world import World, in_world

OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": True}]
REPORTS = "/apis/gpufleet.io/v1alpha1/nodedevices"
PLACES = ("1g.10gb@0", "1g.10gb@1", "1g.10gb@2")


def a_cut_node(world: World, places: tuple[str, ...] = PLACES, card: str = "GPU-a") -> None:
    """A node with one card that is cut into these instances, as its agent reports them."""
    world.node("a", gpus=len(places), devices=False)
    devices = [
        {
            "id": f"{card}::{place}",
            "vendor": "NVIDIA",
            "model": "H100-80GB",
            "memoryMiB": 9984,
            "usableMemoryMiB": 9984,
            "sharing": "whole",
        }
        for place in places
    ]
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeDevices",
            "metadata": {"name": "a"},
            "spec": {"devices": devices},
        }
    )


def granted(world: World, pod: str) -> list[dict[str, Any]]:
    """The devices of a pod's grant, by start."""
    found = [one for part in world.grant_of(pod)["containers"].values() for one in part]
    return sorted(found, key=lambda one: int(one["migStart"]))


def starts(world: World, *pods: str) -> list[list[int]]:
    return [[one["migStart"] for one in granted(world, pod)] for pod in pods]


def reports(world: World, **held: int) -> None:
    """The agent says which pod holds the instance that begins where."""
    holders = [
        {
            "device": f"GPU-a::1g.10gb@{start}",
            "podUID": world.get(pod)["metadata"]["uid"],
            "container": "main",
            "kind": "mig",
            "gpuMilli": 142,
            "migProfile": "1g.10gb",
            "migStart": start,
        }
        for pod, start in held.items()
    ]
    answer = world.request("PATCH", f"{REPORTS}/a", {"spec": {"holders": holders}}, "system:node:a")
    assert answer == 200


def test_a_pod_gets_as_many_instances_as_it_asks_for_and_the_next_what_is_left() -> None:
    async def story(world: World) -> None:
        a_cut_node(world)
        world.pod("two", gpus=2)
        await world.settle()
        world.pod("one", gpus=1)
        await world.settle()
        world.pod("late", gpus=1)
        await world.settle()
        assert granted(world, "one") == [
            {
                "id": "GPU-a",
                "kind": "mig",
                "gpuMilli": 142,
                "memoryMiB": 9984,
                "migProfile": "1g.10gb",
                "migStart": 2,
            }
        ]
        assert starts(world, "two") == [[0, 1]]
        assert world.node_of("late") == ""
        world.finish("two")
        await world.settle()
        assert starts(world, "late")[0][0] in {0, 1}

    in_world(story)


def test_another_leader_knows_what_was_granted() -> None:
    async def story(world: World) -> None:
        a_cut_node(world)
        world.pod("two", gpus=2)
        await world.settle()
        await world.stop()
        world.start()
        world.pod("one", gpus=1)
        world.pod("late", gpus=1)
        await world.settle(30.0)
        placed = [pod for pod in ("one", "late") if world.node_of(pod)]
        assert len(placed) == 1
        assert starts(world, placed[0]) == [[2]]

    in_world(story)


def test_the_booking_moves_to_the_instance_that_the_kubelet_gave() -> None:
    async def story(world: World) -> None:
        a_cut_node(world)
        world.pod("p")
        await world.settle()
        reports(world, p=2)
        await world.settle()
        world.pod("rest", gpus=2)
        await world.settle()
        assert starts(world, "rest") == [[0, 1]]
        assert world.evicted() == []

    in_world(story)


def test_of_two_that_hold_one_instance_the_later_is_evicted() -> None:
    async def story(world: World) -> None:
        a_cut_node(world)
        world.pod("early", ownerReferences=OWNER)
        await world.settle()
        world.pod("late", ownerReferences=OWNER)
        await world.settle()
        reports(world, early=0, late=0)
        await world.settle(60.0)
        assert world.evicted() == ["late"]

    in_world(story)


def test_replicas_of_an_instance_are_granted_by_their_numbers_and_of_different_ones_first() -> None:
    async def story(world: World) -> None:
        a_cut_node(world, ("1g.10gb@0::0", "1g.10gb@0::1", "1g.10gb@1::0", "1g.10gb@1::1"))
        world.pod("p", gpus=2)
        await world.settle()
        world.pod("q", gpus=2)
        await world.settle()
        found = {pod: [(one["id"], one["migStart"]) for one in granted(world, pod)] for pod in "pq"}
        assert found == {"p": [("GPU-a::0", 0), ("GPU-a::0", 1)], "q": [("GPU-a::1", 0), ("GPU-a::1", 1)]}

    in_world(story)


def test_instances_that_are_extended_resources_are_counted_as_before() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=0, devices=False)
        name = "nvidia.com/mig-1g.10gb"
        status = {"status": {"allocatable": {name: "1"}}}
        assert world.request("PATCH", "/api/v1/nodes/a/status", status) == 200
        device = {"id": "GPU-a", "sharing": "mig", "migInstances": [{"profile": "1g.10gb", "start": 0}]}
        world.add(
            {
                "apiVersion": "gpufleet.io/v1alpha1",
                "kind": "NodeDevices",
                "metadata": {"name": "a"},
                "spec": {"devices": [device]},
            }
        )
        world.pod("first", gpus=0, resources={name: "1"})
        await world.settle()
        world.pod("second", gpus=0, resources={name: "1"})
        world.pod("whole", gpus=1)
        await world.settle()
        assert [world.node_of(pod) for pod in ("first", "second", "whole")] == ["a", "", ""]
        assert world.devices_of("first") == []

    in_world(story)
