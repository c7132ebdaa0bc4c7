"""Of a pod that fits nowhere the doctor tells the cause that ``gpufleet explain`` tells."""

import json
from collections.abc import Callable

import pytest

from gpufleet.doctor.check import Failure
from gpufleet.doctor.checks import fits_nowhere
from tests.doctor.facts_of_text import facts_of
from tests.explain.causes.nodes import cut_node
from tests.explain.causes.test_causes import answer_in
from tests.scheduler.world import World, in_world

Build = Callable[[World], None]


def more_gpus_than_any_node_has(world: World) -> None:
    world.node("a", gpus=8)
    world.pod("p", gpus=16)


def gpus_where_no_node_has_any(world: World) -> None:
    world.node("a", gpus=0, devices=False)
    world.pod("p", gpus=1)


def a_resource_that_no_node_offers(world: World) -> None:
    world.node("a", gpus=8)
    world.pod("p", gpus=0, resources={"nvidia.com/mig-3g.40gb": "1"})


def more_cpu_than_any_node_has(world: World) -> None:
    world.node("a", gpus=8)
    world.pod("p", gpus=1, resources={"cpu": "200"})


def more_memory_than_any_node_has(world: World) -> None:
    world.node("a", gpus=8)
    world.pod("p", gpus=1, resources={"memory": "9Ti"})


def a_selector_that_picks_nodes_without_gpus(world: World) -> None:
    world.node("a", gpus=8, labels={"node-type": "gpu"})
    world.node("cpu", gpus=0, devices=False, labels={"node-type": "cpu"})
    world.pod("p", gpus=1, nodeSelector={"node-type": "cpu"})


def a_whole_gpu_where_all_are_cut(world: World) -> None:
    cut_node(world, "a")
    world.pod("p", gpus=1)


CASES = {
    a_whole_gpu_where_all_are_cut: "gpu-withheld",
    more_gpus_than_any_node_has: "gpu-count",
    gpus_where_no_node_has_any: "no-gpu",
    a_resource_that_no_node_offers: "unknown-resource",
    more_cpu_than_any_node_has: "cpu",
    more_memory_than_any_node_has: "memory",
    a_selector_that_picks_nodes_without_gpus: "selector",
}


@pytest.mark.parametrize(("build", "cause"), CASES.items(), ids=lambda one: getattr(one, "__name__", one))
def test_the_doctor_and_explain_tell_one_cause(build: Build, cause: str) -> None:
    async def story(world: World) -> None:
        build(world)
        await world.settle()
        assert (await answer_in(world, "p")).cause == cause
        objects = [*world.objects("/api/v1/nodes"), *world.objects("/api/v1/pods")]
        kinds = ["Node"] * len(world.objects("/api/v1/nodes")) + ["Pod"] * len(world.objects("/api/v1/pods"))
        texts = [
            json.dumps({"apiVersion": "v1", **one, "kind": kind})
            for one, kind in zip(objects, kinds, strict=True)
        ]
        found = list(fits_nowhere.CHECK.judge(facts_of("\n---\n".join(texts))))
        (failure,) = [one for one in found if isinstance(one, Failure)]
        assert failure.says.endswith(f"({cause})")

    in_world(story)


def test_a_pod_that_waits_for_room_alone_fits_somewhere() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Pending"},
    }
    facts = facts_of("\n---\n".join(map(json.dumps, (node, pod))))
    assert not [one for one in fits_nowhere.CHECK.judge(facts) if isinstance(one, Failure)]
