"""What agents report of who holds what: bookings follow it, conflicts end, offenders are warned."""

import re
from typing import Any

import pytest

from tests.scheduler.world import World, in_world

OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": True}]


def reports(world: World, node: str, **held: str | dict[str, Any]) -> None:
    """The agent of a node reports which pod holds which of its devices, by number or as a holder."""
    holders = []
    for pod, what in held.items():
        uid = "" if pod.startswith("foreign") else world.get(pod)["metadata"]["uid"]
        one: dict[str, Any] = {"device": f"GPU-{node}-{what}"} if isinstance(what, str) else dict(what)
        holders.append({**one, "podUID": uid} if uid else {**one, "foreign": "a program of the machine"})
    path = f"/apis/gpufleet.io/v1alpha1/nodedevices/{node}"
    assert world.request("PATCH", path, {"spec": {"holders": holders}}, f"system:node:{node}") == 200


def number(world: World, pod: str) -> str:
    """Which GPU of its node a pod was granted."""
    return world.devices_of(pod)[0].rpartition("-")[2]


def a_share(world: World, pod: str, used_mib: int | None = None) -> dict[str, Any]:
    """A pod's share as its agent reports it."""
    granted = world.grant_of(pod)["containers"]["main"][0]
    holder = {
        "device": granted["id"],
        "kind": "share",
        "gpuMilli": granted["gpuMilli"],
        "memoryMiB": granted["memoryMiB"],
    }
    return holder if used_mib is None else {**holder, "usedMemoryMiB": used_mib}


def share(world: World, name: str, fraction: str, **more: Any) -> None:
    world.pod(
        name,
        gpus=0,
        annotations={"gpufleet.io/gpu-fraction": fraction},
        resources={"gpufleet.io/gpu-share": "1"},
        **more,
    )


def test_the_booking_moves_to_the_device_that_the_kubelet_gave() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("p")
        await world.settle()
        other = "1" if number(world, "p") == "0" else "0"
        reports(world, "a", p=other)
        await world.settle()
        world.pod("next")
        await world.settle()
        assert world.devices_of("next") == [f"GPU-a-{number(world, 'p')}"]
        assert world.evicted() == []

    in_world(story)


def test_swapped_twins_keep_running_and_each_frees_what_it_held() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("p")
        world.pod("q")
        await world.settle()
        held_by_p = number(world, "q")
        reports(world, "a", p=held_by_p, q=number(world, "p"))
        await world.settle(60.0)
        assert world.evicted() == []
        world.finish("p")
        world.pod("next")
        await world.settle()
        assert world.devices_of("next") == [f"GPU-a-{held_by_p}"]

    in_world(story)


def test_half_a_swap_moves_the_other_twin_to_what_was_left() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=3)
        world.pod("p")
        world.pod("q")
        await world.settle()
        reports(world, "a", p=number(world, "q"))
        await world.settle(60.0)
        assert world.evicted() == []
        world.pod("next")
        await world.settle()
        assert number(world, "next") not in {number(world, "p"), number(world, "q")}

    in_world(story)


def test_a_grant_whose_device_somebody_else_holds_is_evicted_and_made_anew() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("granted", ownerReferences=OWNER)
        await world.settle()
        world.pod("stranger", schedulerName="other", nodeName="a")
        reports(world, "a", stranger="0")
        await world.settle(5.0)
        assert world.evicted() == []
        await world.settle(30.0)
        assert world.evicted() == ["granted"]
        (note,) = world.events("DeviceConflict")
        assert "gave device GPU-a-0 to default/stranger" in note

    in_world(story)


def test_of_two_holders_the_later_is_evicted() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("early", ownerReferences=OWNER)
        await world.settle()
        world.pod("late", ownerReferences=OWNER)
        await world.settle()
        reports(world, "a", early="0", late="0")
        await world.settle(60.0)
        assert world.evicted() == ["late"]

    in_world(story)


def forgotten(device: str) -> dict[str, Any]:
    """Held by a container that runs, and of which its kubelet does not know any more."""
    return {"device": device, "unknownToKubelet": True}


def test_what_a_kubelet_forgot_is_not_free() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("p")
        await world.settle()
        other = "GPU-a-1" if number(world, "p") == "0" else "GPU-a-0"
        reports(world, "a", p=forgotten(other))
        await world.settle()
        world.pod("next")
        world.pod("after")
        await world.settle()
        assert world.devices_of("next") == [f"GPU-a-{number(world, 'p')}"]
        assert world.node_of("after") == ""

    in_world(story)


def test_a_pod_beside_one_that_the_kubelet_forgot_is_evicted_if_it_came_later() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("early", ownerReferences=OWNER)
        await world.settle()
        world.pod("late", ownerReferences=OWNER)
        await world.settle()
        reports(world, "a", early=forgotten("GPU-a-0"), late="0")
        await world.settle(60.0)
        assert world.evicted() == ["late"]

    in_world(story)


def test_a_bare_pod_in_a_conflict_stays_with_the_reason() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("bare")
        await world.settle()
        world.pod("stranger", schedulerName="other", nodeName="a")
        reports(world, "a", stranger="0")
        await world.settle(60.0)
        assert world.evicted() == []
        (note,) = world.events("DeviceConflict")
        assert "no controller would replace it" in note

    in_world(story)


def test_a_conflict_that_goes_away_by_itself_ends_nobody() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("p", ownerReferences=OWNER)
        await world.settle()
        world.pod("stranger", schedulerName="other", nodeName="a")
        reports(world, "a", stranger="0")
        await world.settle(5.0)
        world.delete("stranger")
        reports(world, "a", p="0")
        await world.settle(60.0)
        assert world.evicted() == []
        assert world.events("DeviceConflict") == []

    in_world(story)


def test_a_pod_of_another_scheduler_is_never_evicted() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        for name in ("one", "two"):
            world.pod(name, schedulerName="other", nodeName="a", ownerReferences=OWNER)
        reports(world, "a", one="0", two="0")
        await world.settle(60.0)
        assert world.evicted() == []

    in_world(story)


@pytest.mark.parametrize(
    "part",
    [
        {"kind": "share", "gpuMilli": 250},
        {"kind": "mig", "gpuMilli": 142, "migProfile": "1g.10gb", "migStart": 3},
    ],
)
def test_replicas_and_instances_of_one_gpu_are_no_conflict(part: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        for name in ("one", "two"):
            world.pod(name, nodeName="a", ownerReferences=OWNER)
        holder = {"device": "GPU-a-0", **part}
        reports(world, "a", one=holder, two=holder)
        await world.settle(60.0)
        assert world.evicted() == []

    in_world(story)


def test_nothing_is_placed_on_a_device_that_somebody_foreign_holds() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        reports(world, "a", foreign="0")
        await world.settle()
        world.pod("p")
        world.pod("q")
        await world.settle()
        placed = sorted(name for name in ("p", "q") if world.node_of(name))
        assert len(placed) == 1
        assert world.devices_of(placed[0]) == ["GPU-a-1"]
        reports(world, "a")
        await world.settle()
        assert all(world.node_of(name) for name in ("p", "q"))

    in_world(story)


def test_a_new_leader_books_by_what_is_held() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("p")
        await world.settle()
        other = "1" if number(world, "p") == "0" else "0"
        reports(world, "a", p=other)
        await world.stop()
        world.start()
        world.pod("next")
        await world.settle(40.0)
        assert world.devices_of("next") == [f"GPU-a-{number(world, 'p')}"]

    in_world(story)


def test_who_exceeds_its_memory_is_warned_and_without_the_policy_left_running() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        share(world, "greedy", "0.5", ownerReferences=OWNER)
        share(world, "modest", "0.5", ownerReferences=OWNER)
        await world.settle()
        reports(world, "a", greedy=a_share(world, "greedy", 45000), modest=a_share(world, "modest"))
        await world.settle(300.0)
        assert world.evicted() == []
        (note,) = world.events("GPUMemoryExceeded")
        assert re.search(r"uses 45000 MiB of GPU-a-0 and has a share of 40000 MiB", note)

    in_world(story)


def test_by_policy_the_offender_is_evicted_after_a_warning_and_never_its_neighbour() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        share(world, "greedy", "0.5", ownerReferences=OWNER)
        share(world, "modest", "0.5", ownerReferences=OWNER)
        await world.settle()
        reports(world, "a", greedy=a_share(world, "greedy", 45000), modest=a_share(world, "modest"))
        await world.settle(30.0)
        assert world.evicted() == []
        assert len(world.events("GPUMemoryExceeded")) == 1
        await world.settle(60.0)
        assert world.evicted() == ["greedy"]

    in_world(story, evict_memory_offenders=True)


def test_an_offender_that_heeds_the_warning_stays() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        share(world, "greedy", "0.5", ownerReferences=OWNER)
        await world.settle()
        reports(world, "a", greedy=a_share(world, "greedy", 45000))
        await world.settle(30.0)
        reports(world, "a", greedy=a_share(world, "greedy"))
        await world.settle(120.0)
        assert world.evicted() == []

    in_world(story, evict_memory_offenders=True)


def test_a_bare_offender_stays_with_the_reason() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        share(world, "greedy", "0.5")
        await world.settle()
        reports(world, "a", greedy=a_share(world, "greedy", 45000))
        await world.settle(120.0)
        assert world.evicted() == []
        assert "no controller would replace it" in world.events("GPUMemoryExceeded")[0]

    in_world(story, evict_memory_offenders=True)
