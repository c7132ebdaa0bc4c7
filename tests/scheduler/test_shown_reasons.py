"""Nodes are asked for within the quota of a queue, by the same work before and after a restart."""

from collections.abc import Iterable

from gpufleet.scheduler.shown_reasons import AS_A_WHOLE, PROMISED
from tests.scheduler.test_eviction_planner import add_queue, of
from tests.scheduler.test_reservations import change_leaders
from tests.scheduler.world import World, in_world


def reasons(world: World, names: Iterable[str]) -> list[str]:
    """The reason of each pod's condition."""
    found = []
    for name in names:
        conditions = world.get(name)["status"]["conditions"]
        found += [one["reason"] for one in conditions if one["type"] == "PodScheduled"]
    return found


async def three_wait_for_nodes(world: World) -> None:
    """Each is within the quota of four GPUs, and two of them together."""
    world.node("n", gpus=1)
    add_queue(world, "team", quotas=[{"resource": "gpu", "nominal": 4, "borrowingLimit": 0}])
    for name in "abc":
        world.pod(name, gpus=2, labels=of("team"))
        await world.settle(2)


def test_nodes_are_asked_for_as_far_as_the_quota_of_the_queue_goes() -> None:
    async def story(world: World) -> None:
        await three_wait_for_nodes(world)
        assert reasons(world, "abc") == ["Unschedulable", "Unschedulable", "WaitingForQuota"]
        assert PROMISED in world.why("c")
        assert PROMISED not in world.why("b")
        world.delete("a")
        await world.settle(60)
        assert reasons(world, "bc") == ["Unschedulable", "Unschedulable"]
        assert PROMISED not in world.why("c")

    in_world(story)


def test_a_gang_asks_for_no_node_where_quota_is_left_for_some_of_its_members_alone() -> None:
    """Eight GPUs are owned: one member of eight is within quota, and two are not."""

    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "team", quotas=[{"resource": "gpu", "nominal": 8, "borrowingLimit": 0}])
        words = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
        for name in "ab":
            world.pod(name, gpus=8, labels=of("team"), annotations=words)
        await world.settle(20)
        assert reasons(world, "ab") == ["WaitingForQuota"] * 2
        assert AS_A_WHOLE in world.why("a")
        more = {"spec": {"quotas": [{"resource": "gpu", "nominal": 16, "borrowingLimit": 0}]}}
        assert world.request("PATCH", "/apis/gpufleet.io/v1alpha1/fleetqueues/team", more) == 200
        await world.settle(30)
        assert reasons(world, "ab") == ["Unschedulable"] * 2

    in_world(story)


def test_after_a_restart_the_same_work_asks_although_other_work_goes_first_now() -> None:
    async def story(world: World) -> None:
        await three_wait_for_nodes(world)
        world.pod("urgent", gpus=2, labels=of("team"), priority=9)
        await world.settle(5)
        assert reasons(world, ["urgent"]) == ["WaitingForQuota"]
        await change_leaders(world)
        await world.settle(60)
        assert reasons(world, "abc") == ["Unschedulable", "Unschedulable", "WaitingForQuota"]
        assert reasons(world, ["urgent"]) == ["WaitingForQuota"]

    in_world(story)
