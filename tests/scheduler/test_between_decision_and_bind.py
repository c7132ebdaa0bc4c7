"""What happens to a pod after its place was decided and before its Binding arrives."""

import pytest

from tests.scheduler.world import World, in_world

SHARE = {"gpufleet.io/gpu-share": "1"}


def edit(world: World, name: str, metadata: dict[str, object]) -> None:
    assert world.request("PATCH", f"/api/v1/namespaces/default/pods/{name}", {"metadata": metadata}) == 200


def test_a_pod_that_becomes_malformed_keeps_the_device_that_its_binding_carries() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        await world.settle()
        world.delays("POST", "/pods/p/binding", late_s=5.0)
        world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"}, resources=SHARE)
        await world.settle(1.0)
        edit(world, "p", {"annotations": {"gpufleet.io/gpu-fraction": "abc"}})
        world.pod("whole", gpus=1)
        await world.settle()
        assert world.devices_of("p") == ["GPU-a-0"]
        assert world.node_of("whole") == ""

    in_world(story)


def test_a_pod_that_was_edited_is_read_anew_where_its_bind_came_to_nothing() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        await world.settle()
        world.loses("POST", "/pods/p/binding", times=1000)
        world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"}, resources=SHARE)
        await world.settle(1.0)
        edit(world, "p", {"annotations": {"gpufleet.io/gpu-fraction": "abc"}})
        world.pod("whole", gpus=1)
        await world.settle(120.0)
        assert "gpufleet.io/gpu-fraction" in world.why("p")
        assert world.node_of("whole") == "a"

    in_world(story)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_node_that_tells_its_devices_meanwhile_gives_none_of_them_twice(seed: int) -> None:
    """The answer to the Binding comes before the watch tells of it, or after, by the seed."""

    async def story(world: World) -> None:
        world.node("a", gpus=1, devices=False)
        await world.settle()
        world.delays("POST", "/pods/p/binding", late_s=10.0)
        world.pod("p", gpus=1)
        await world.settle(1.0)
        world.report("a", gpus=1)
        world.pod("q", gpus=1)
        await world.settle(120.0)
        assert (world.node_of("p"), world.node_of("q")) == ("a", "")
        world.delete("p")
        await world.settle()
        assert world.devices_of("q") == ["GPU-a-0"]

    in_world(story, seed=seed)


def test_labels_that_changed_meanwhile_are_seen_by_the_neighbours() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.node("b")
        await world.settle()
        world.delays("POST", "/pods/p/binding", late_s=5.0)
        world.pod("p", labels={"app": "quiet"})
        await world.settle(1.0)
        edit(world, "p", {"labels": {"app": "loud"}})
        await world.settle(10.0)
        term = {"labelSelector": {"matchLabels": {"app": "loud"}}, "topologyKey": "kubernetes.io/hostname"}
        world.pod(
            "apart", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        )
        await world.settle()
        assert {world.node_of("p"), world.node_of("apart")} == {"a", "b"}

    in_world(story)


def test_what_was_to_be_said_of_waiting_is_not_said_of_a_pod_that_was_bound_meanwhile() -> None:
    async def story(world: World) -> None:
        await world.settle()
        world.delays("PATCH", "/pods/p/status", late_s=5.0)
        world.pod("p")
        await world.settle(1.0)
        world.node("a")
        await world.settle(20.0)
        assert world.node_of("p") == "a"
        scheduled = [one for one in world.get("p")["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert [one["status"] for one in scheduled] == ["True"]

    in_world(story)


def test_a_condition_is_written_though_the_pod_was_edited_meanwhile() -> None:
    async def story(world: World) -> None:
        await world.settle()
        world.delays("PATCH", "/pods/p/status", late_s=3.0)
        world.pod("p")
        await world.settle(1.0)
        edit(world, "p", {"labels": {"app": "edited"}})
        await world.settle(10.0)
        assert "there are no nodes" in world.why("p")

    in_world(story)
