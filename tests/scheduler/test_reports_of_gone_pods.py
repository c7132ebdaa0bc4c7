"""A device that its node reports as held by a pod that the API does not know is given to none."""

from typing import Any

import pytest

from tests.scheduler.test_reports_that_go_away import listed
from tests.scheduler.world import World, in_world

REPORT = "/apis/gpufleet.io/v1alpha1/nodedevices/a"


def reports_held(world: World, *holders: dict[str, Any]) -> None:
    assert world.request("PATCH", REPORT, {"spec": {"holders": list(holders)}}, "system:node:a") == 200


def held_by(world: World, pod: str) -> list[dict[str, Any]]:
    """What the agent of the node reports of a pod that has what it was granted."""
    uid = world.get(pod)["metadata"]["uid"]
    return [{"device": one, "podUID": uid} for one in world.devices_of(pod)]


def a_share(world: World, name: str) -> None:
    resources = {"gpufleet.io/gpu-share": "1"}
    world.pod(name, gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"}, resources=resources)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", ["whole", "share"])
def test_what_a_deleted_pod_holds_is_free_only_when_the_report_says_so(kind: str, restarts: bool) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        world.pod("old")
        await world.settle()
        reports_held(world, *held_by(world, "old"))
        await world.settle()
        world.delete("old")
        if restarts:
            await world.stop()
            world.start()
        if kind == "whole":
            world.pod("next")
        else:
            a_share(world, "next")
        await world.settle(60)
        assert world.node_of("next") == ""
        reports_held(world)
        await world.settle()
        assert world.node_of("next") == "a"

    in_world(story)


def test_beside_a_share_of_a_deleted_pod_there_is_no_other_until_the_report_drops_it() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        a_share(world, "old")
        await world.settle()
        reports_held(world, *({**one, "kind": "share", "gpuMilli": 500} for one in held_by(world, "old")))
        await world.settle()
        world.delete("old")
        for name in ("first", "second"):
            a_share(world, name)
        await world.settle()
        assert [world.node_of(name) for name in ("first", "second")] == ["", ""]
        reports_held(world)
        await world.settle()
        assert [world.node_of(name) for name in ("first", "second")] == ["a", "a"]

    in_world(story)


def test_a_mig_instance_of_a_deleted_pod_is_given_to_none_until_the_report_drops_it() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        amount = {"status": {"allocatable": {"nvidia.com/mig-1g.10gb.me": "2"}}}
        assert world.request("PATCH", "/api/v1/nodes/a/status", amount, "system:node:a") == 200
        cut = {"spec": {"devices": [{**listed("GPU-a-0")[0], "sharing": "mig"}]}}
        assert world.request("PATCH", REPORT, cut, "system:node:a") == 200
        await world.settle()
        wanted = {"nvidia.com/mig-1g.10gb.me": "1"}
        world.pod("old", gpus=0, resources=wanted)
        await world.settle()
        instance = {"device": "GPU-a-0", "kind": "mig", "migProfile": "1g.10gb+me", "migStart": 0}
        reports_held(world, {**instance, "podUID": world.get("old")["metadata"]["uid"]})
        await world.settle()
        world.delete("old")
        for name in ("first", "second"):
            world.pod(name, gpus=0, resources=wanted)
        await world.settle()
        assert sorted(world.node_of(name) for name in ("first", "second")) == ["", "a"]
        reports_held(world)
        await world.settle()
        assert sorted(world.node_of(name) for name in ("first", "second")) == ["a", "a"]

    in_world(story)


MIG = "nvidia.com/mig-1g.10gb"


def an_instance(start: int, **holder: Any) -> dict[str, Any]:
    return {"device": "GPU-a-0", "kind": "mig", "migProfile": "1g.10gb", "migStart": start, **holder}


async def a_cut_node(world: World, instances: int) -> None:
    """A node whose one GPU is cut into instances that are counted by their own name."""
    world.node("a", gpus=1)
    amount = {"status": {"allocatable": {MIG: str(instances)}}}
    assert world.request("PATCH", "/api/v1/nodes/a/status", amount, "system:node:a") == 200
    cut = {"spec": {"devices": [{**listed("GPU-a-0")[0], "sharing": "mig"}]}}
    assert world.request("PATCH", REPORT, cut, "system:node:a") == 200
    await world.settle()


def test_mig_instances_of_processes_outside_kubernetes_are_not_free() -> None:
    async def story(world: World) -> None:
        await a_cut_node(world, 3)
        reports_held(world, an_instance(0, foreign="host/cuda"), an_instance(1))
        await world.settle()
        for name in ("first", "second"):
            world.pod(name, gpus=0, resources={MIG: "1"})
        await world.settle()
        assert sorted(world.node_of(name) for name in ("first", "second")) == ["", "a"]
        reports_held(world, an_instance(0, foreign="host/cuda"))
        await world.settle()
        assert [world.node_of(name) for name in ("first", "second")] == ["a", "a"]

    in_world(story)


def test_a_process_in_the_instance_of_a_pod_takes_no_second_one() -> None:
    async def story(world: World) -> None:
        await a_cut_node(world, 2)
        world.pod("first", gpus=0, resources={MIG: "1"})
        await world.settle()
        uid = world.get("first")["metadata"]["uid"]
        reports_held(world, an_instance(0, podUID=uid), an_instance(0, container="beside"))
        await world.settle()
        world.pod("second", gpus=0, resources={MIG: "1"})
        await world.settle()
        assert world.node_of("second") == "a"

    in_world(story)


def test_an_instance_that_a_pod_was_given_without_asking_for_it_by_name_is_not_free() -> None:
    async def story(world: World) -> None:
        await a_cut_node(world, 2)
        # Another plugin gives instances under a name of its own, so its pods ask for none of ours.
        world.pod("theirs", gpus=0, schedulerName="other", nodeName="a")
        await world.settle()
        reports_held(world, an_instance(0, podUID=world.get("theirs")["metadata"]["uid"]))
        for name in ("first", "second"):
            world.pod(name, gpus=0, resources={MIG: "1"})
        await world.settle()
        assert sorted(world.node_of(name) for name in ("first", "second")) == ["", "a"]
        world.delete("theirs")
        reports_held(world)
        await world.settle()
        assert [world.node_of(name) for name in ("first", "second")] == ["a", "a"]

    in_world(story)


def test_other_devices_of_the_node_are_given_meanwhile() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("old")
        await world.settle()
        held = held_by(world, "old")
        reports_held(world, *held)
        await world.settle()
        world.delete("old")
        world.pod("next")
        world.pod("last")
        await world.settle()
        placed = [name for name in ("next", "last") if world.node_of(name)]
        assert len(placed) == 1
        assert world.devices_of(placed[0]) != [held[0]["device"]]

    in_world(story)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("way", ["stays", "is deleted", "stays over a restart"])
def test_what_a_pod_held_that_ended_is_free_without_waiting_for_the_report(phase: str, way: str) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("old")
        await world.settle()
        reports_held(world, *held_by(world, "old"))
        await world.settle()
        if way == "stays over a restart":
            await world.stop()
        world.finish("old", phase)
        if way == "is deleted":
            world.delete("old")
        if way == "stays over a restart":
            world.start()
        world.pod("next")
        await world.settle()
        assert world.node_of("next") == "a"

    in_world(story)


def test_a_holder_that_a_report_names_again_counts_again() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("old")
        await world.settle()
        held = held_by(world, "old")
        world.delete("old")
        reports_held(world, *held)
        await world.settle()
        world.pod("next")
        await world.settle()
        assert world.node_of("next") == ""
        reports_held(world)
        await world.settle()
        assert world.node_of("next") == "a"

    in_world(story)
