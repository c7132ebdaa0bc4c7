"""NodeData reaches the engine: pods follow their models, and wait where they say so."""

from typing import Any

from tests.scheduler.world import World, in_world

READS = {"gpufleet.io/data": "model/org/llama@main"}
REQUIRES = {**READS, "gpufleet.io/data-policy": "Require"}


def reported(world: World, name: str, **entry: Any) -> None:
    """A node whose agent reports the model under its branch."""
    world.node(name)
    world.data(name, "org/llama", revision="r1", branches=["main"], **entry)


def test_pods_go_where_their_model_is_and_wait_for_it_where_they_require_it() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("waits", annotations=REQUIRES)
        await world.settle()
        assert "without a model or dataset that the pod requires" in world.why("waits")
        reported(world, "b")
        # Reports and pods come by streams of their own: the pod shall be decided by this report.
        await world.settle(1)
        world.pod("follows", annotations=READS)
        await world.settle()
        assert (world.node_of("waits"), world.node_of("follows")) == ("b", "b")

    in_world(story)


def test_a_pod_waits_for_its_data_no_longer_than_it_says_or_than_a_copy_takes() -> None:
    """141 GB take 128 seconds at 1.1 GB/s."""

    async def story(world: World) -> None:
        reported(world, "full")
        world.pod("there", gpus=8, annotations=READS)
        await world.settle()
        world.node("free")
        for name, wait in (("short", "1m"), ("long", "1h")):
            policy = {"gpufleet.io/data-policy": f"WaitUpTo={wait}"}
            world.pod(name, annotations={**READS, **policy})
        await world.settle(50)
        assert (world.node_of("short"), world.node_of("long")) == ("", "")
        await world.settle(20)
        assert (world.node_of("short"), world.node_of("long")) == ("free", "")
        await world.settle(50)
        assert not world.node_of("long")
        await world.settle(20)
        assert world.node_of("long") == "free"

    in_world(story)


def test_a_servers_command_line_and_a_claim_lead_to_the_node_with_the_model() -> None:
    async def story(world: World) -> None:
        world.node("a")
        await world.settle()
        world.pod("there")
        await world.settle()
        reported(world, "b")
        volume = {"capacity": {"storage": "1Gi"}, "claimRef": {"name": "weights", "namespace": "default"}}
        world.add({"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": volume, "apiVersion": "v1"})
        metadata = {
            "name": "weights",
            "namespace": "default",
            "annotations": {**READS, "pv.kubernetes.io/bind-completed": "yes"},
        }
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "v"}}
        world.add({**claim, "metadata": metadata})
        await world.settle()
        world.pod("packs")
        await world.settle()
        served = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        world.pod("serves", containers=[{**served, "command": ["vllm", "serve", "org/llama"]}])
        mounted = {"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}
        world.pod("mounts", volumes=[mounted])
        await world.settle()
        assert [world.node_of(name) for name in ("packs", "serves", "mounts")] == ["a", "b", "b"]

    in_world(story)


def test_data_that_cannot_be_understood_harms_nothing_else() -> None:
    async def story(world: World) -> None:
        reported(world, "a", kind="program")
        reported(world, "b", bytes=-1)
        reported(world, "c", complete="perhaps")
        world.pod("plain")
        world.pod("reads", annotations=READS)
        world.pod("requires", annotations=REQUIRES)
        world.pod("malformed", annotations={"gpufleet.io/data": "llama"})
        await world.settle()
        assert world.node_of("plain")
        assert world.node_of("reads")
        assert not world.node_of("requires")
        assert "gpufleet.io/data" in world.why("malformed")

    in_world(story)


def test_pods_go_where_their_large_image_is_and_never_wait_for_it() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b"):
            world.node(name, gpus=1)
        await world.settle()
        served = {"name": "main", "image": "org/big:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        image: dict[str, Any] = {"kind": "image", "folder": "", "bytes": 12 * 10**9}
        world.data("b", "docker.io/org/big:1", **image)
        await world.settle(1)
        requires = {**REQUIRES, "gpufleet.io/data": "model/org/llama"}
        for name in ("first", "second"):
            world.pod(name, containers=[served])
            await world.settle()
        assert [world.node_of(name) for name in ("first", "second")] == ["b", "a"]
        world.delete("second")
        world.data("a", "org/llama")
        world.pod("third", containers=[served], annotations=requires)
        await world.settle()
        assert world.node_of("third") == "a"

    in_world(story)
