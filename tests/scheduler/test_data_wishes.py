"""Nodes are told what work reads that will start there, while its place is kept and until it runs."""

import json
from typing import Any

from tests.scheduler.world import World, in_world

READS = {"gpufleet.io/data": "model/org/llama@main"}


def staging_node(world: World, name: str, *models: str) -> None:
    """A node with one GPU whose agent stages, and has these models."""
    world.node(name, gpus=1)
    entries = [
        {"kind": "model", "name": model, "bytes": 10**9, "complete": True, "folder": "/data"}
        for model in models
    ]
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeData",
            "metadata": {"name": name},
            "spec": {"entries": entries, "stages": True},
        }
    )


def wish(world: World, name: str) -> dict[str, Any]:
    """What a node is told."""
    (found,) = [
        one for one in world.objects("/apis/gpufleet.io/v1alpha1/nodedata") if one["metadata"]["name"] == name
    ]
    text = found["metadata"].get("annotations", {}).get("gpufleet.io/data-wanted", "{}")
    told: dict[str, Any] = json.loads(text)
    return told


def runs(world: World, name: str) -> None:
    """The kubelet says that a pod runs."""
    status = {"status": {"phase": "Running"}}
    assert world.request("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", status) == 200


def test_the_node_that_is_kept_for_a_pod_is_told_what_it_reads_until_it_runs() -> None:
    async def story(world: World) -> None:
        staging_node(world, "a", "org/old")
        await world.settle()
        world.pod("low", terminationGracePeriodSeconds=120)
        await world.settle()
        runs(world, "low")
        assert wish(world, "a") == {}
        world.pod("high", priority=10, annotations=READS)
        world.pod("waits", annotations={"gpufleet.io/data": "model/org/old"})
        await world.settle(30)
        assert not world.node_of("high")
        assert wish(world, "a") == {
            "stage": ["model/org/llama@main"],
            "keep": ["model/org/old"],
        }
        world.delete("low")
        await world.settle()
        assert world.node_of("high") == "a"
        assert wish(world, "a")["stage"] == ["model/org/llama@main"]
        runs(world, "high")
        await world.settle()
        assert wish(world, "a") == {"keep": ["model/org/llama@main", "model/org/old"]}
        world.finish("high")
        world.delete("waits")
        await world.settle()
        assert wish(world, "a") == {}

    in_world(story)


def test_a_node_whose_agent_stages_nothing_is_told_nothing() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.data("a", "org/old")
        await world.settle()
        world.pod("reads", annotations=READS)
        await world.settle()
        assert world.node_of("reads") == "a"
        assert wish(world, "a") == {}

    in_world(story)


def test_a_node_that_pulls_is_told_the_images_that_it_lacks() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        there = {"kind": "image", "name": "docker.io/org/there:1", "bytes": 2 * 10**9, "complete": True}
        world.add(
            {
                "apiVersion": "gpufleet.io/v1alpha1",
                "kind": "NodeData",
                "metadata": {"name": "a"},
                "spec": {"entries": [{**there, "folder": ""}], "pulls": True},
            }
        )
        await world.settle()
        world.pod("low", terminationGracePeriodSeconds=120)
        await world.settle()
        runs(world, "low")
        served = {"name": "main", "image": "org/new:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        containers = [served, {"name": "small", "image": "org/small"}]
        volumes = [
            {"name": "model", "image": {"reference": "registry.example/m:1"}},
            {"name": "old", "image": {"reference": "org/there:1"}},
        ]
        world.pod("high", priority=10, annotations=READS, containers=containers, volumes=volumes)
        await world.settle(30)
        assert not world.node_of("high")
        # Its agent pulls, and stages no data.
        assert wish(world, "a") == {"images": ["docker.io/org/new:1", "registry.example/m:1"]}

    in_world(story)
