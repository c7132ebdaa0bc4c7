"""Nodes are asked for only where the limits of Karpenter's NodePools allow all that the work takes."""

from typing import Any

from tests.scheduler.test_reservations import change_leaders
from tests.scheduler.test_shown_reasons import reasons
from tests.scheduler.world import Object, World, in_world

GPU = "nvidia.com/gpu"
POOLS = "/apis/karpenter.sh/v1/nodepools"
MEMBERS = ("0", "1", "2")


def pool(name: str = "gpus", *, limits: Object, **template: Any) -> Object:
    """A NodePool as Karpenter keeps it."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": [], **template}}, "limits": limits},
    }


def buys(world: World, used: Object, name: str = "gpus") -> None:
    """Karpenter's nodes have so much from now on."""
    code = world.request("PATCH", f"{POOLS}/{name}/status", {"status": {"resources": used}})
    assert code == 200


def gang(world: World, name: str, members: int, gpus: int = 8) -> list[str]:
    """Pods of a gang that starts whole; their names."""
    words = {"gpufleet.io/gang": name, "gpufleet.io/gang-min-members": str(members)}
    names = [f"{name}-{number}" for number in range(members)]
    for one in names:
        world.pod(one, gpus=gpus, annotations=words)
    return names


def test_a_gang_is_shown_when_the_limit_allows_all_its_nodes_and_not_before() -> None:
    async def story(world: World) -> None:
        world.add(pool(limits={GPU: "24"}))
        buys(world, {GPU: "8"})
        world.node("full", gpus=1)
        members = gang(world, "train", 3)
        await world.settle(5)
        assert reasons(world, members) == ["WaitingForNodeLimits"] * 3
        words = (
            "; nodes: the limits of NodePool gpus leave 16 of nvidia.com/gpu for new nodes, "
            "and it takes 24 of nvidia.com/gpu"
        )
        assert words in world.why("train-0")
        assert world.request("PATCH", f"{POOLS}/gpus", {"spec": {"limits": {GPU: "32"}}}) == 200
        await world.settle(30)
        assert reasons(world, members) == ["Unschedulable"] * 3

    in_world(story)


def test_a_member_that_fits_on_a_node_of_today_takes_nothing_of_the_limit() -> None:
    async def story(world: World) -> None:
        world.add(pool(limits={GPU: "24"}))
        buys(world, {GPU: "8"})
        world.node("free", gpus=8)
        members = gang(world, "train", 3)
        await world.settle(5)
        assert reasons(world, members) == ["Unschedulable"] * 3

    in_world(story)


def test_room_on_a_node_of_today_is_counted_for_one_gang_and_not_for_two() -> None:
    """Of 20 GPUs 8 are there and 12 come, so 4 of 16 are left. The other needs 12: 8 more than that."""

    async def story(world: World) -> None:
        world.add(pool(limits={GPU: "24"}))
        buys(world, {GPU: "8"})
        world.node("free", gpus=8)
        first = gang(world, "first", 5, gpus=4)
        await world.settle(5)
        other = gang(world, "other", 3, gpus=4)
        await world.settle(15)
        assert reasons(world, [*first, *other]) == ["Unschedulable"] * 5 + ["WaitingForNodeLimits"] * 3
        assert "leave 4 of nvidia.com/gpu for new nodes, and it takes 12" in world.why("other-0")

    in_world(story)


def test_of_two_gangs_that_the_limit_allows_one_by_one_the_second_waits_until_the_first_has_ended() -> None:
    """24 GPUs are left: 16 of one and then 8, where the other needs 16."""

    async def story(world: World) -> None:
        world.add(pool(limits={GPU: "24"}))
        world.node("full", gpus=1)
        one = gang(world, "one", 2)
        await world.settle(5)
        other = gang(world, "other", 2)
        await world.settle(5)
        assert reasons(world, [*one, *other]) == ["Unschedulable"] * 2 + ["WaitingForNodeLimits"] * 2
        # Nodes are bought for the first, and count as used, so that it takes nothing more.
        buys(world, {GPU: "16"})
        await world.settle(30)
        assert reasons(world, [*one, *other]) == ["Unschedulable"] * 2 + ["WaitingForNodeLimits"] * 2
        assert "leave 8 of nvidia.com/gpu" in world.why("other-0")
        for name in one:
            world.delete(name)
        buys(world, {GPU: "0"})
        await world.settle(30)
        assert reasons(world, other) == ["Unschedulable"] * 2

    in_world(story)


def test_nodes_that_were_bought_for_work_leave_the_rest_of_the_limit_to_others() -> None:
    """Of 32 GPUs 16 are bought for the first gang, and 16 are left for the second, not 0."""

    async def story(world: World) -> None:
        world.add(pool(limits={GPU: "32"}))
        world.node("full", gpus=1)
        one = gang(world, "one", 2)
        await world.settle(5)
        buys(world, {GPU: "16"})
        other = gang(world, "other", 2)
        await world.settle(5)
        assert reasons(world, [*one, *other]) == ["Unschedulable"] * 4

    in_world(story)


def test_after_a_restart_the_same_work_asks_and_nodes_that_never_came_count_for_15_minutes() -> None:
    async def story(world: World) -> None:
        world.add(pool(limits={GPU: "16"}))
        world.node("full", gpus=1)
        first = gang(world, "one", 2)
        await world.settle(5)
        world.pod("urgent", gpus=8, priority=9)
        await world.settle(5)
        await change_leaders(world)
        await world.settle(60)
        assert reasons(world, [*first, "urgent"]) == ["Unschedulable"] * 2 + ["WaitingForNodeLimits"]
        await world.settle(15 * 60)
        assert reasons(world, ["urgent"]) == ["Unschedulable"]

    in_world(story)


def test_pools_whose_nodes_are_not_for_the_work_do_not_count() -> None:
    """One is tainted, one has no GPUs, one is of another zone; a pool without a limit allows everything."""

    async def story(world: World) -> None:
        elsewhere = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}
        processors = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m"]}
        world.add(pool("tainted", limits={}, taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]))
        world.add(pool("processors", limits={}, requirements=[processors]))
        world.add(pool("elsewhere", limits={GPU: "80"}, requirements=[elsewhere]))
        world.add(pool(limits={GPU: "8"}))
        world.node("full", gpus=1)
        words = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
        for name in MEMBERS[:2]:
            zone = {"topology.kubernetes.io/zone": "a"}
            world.pod(name, gpus=8, annotations=words, nodeSelector=zone)
        await world.settle(5)
        assert reasons(world, MEMBERS[:2]) == ["WaitingForNodeLimits"] * 2
        assert "NodePools elsewhere" not in world.why("0")
        world.add(pool("unlimited", limits={}))
        await world.settle(30)
        assert reasons(world, MEMBERS[:2]) == ["Unschedulable"] * 2

    in_world(story)


def test_where_pools_say_how_large_nodes_are_whole_nodes_count() -> None:
    """Three members of 4 GPUs take two nodes of 8, that is 16 GPUs, where 12 are left."""

    async def story(world: World) -> None:
        eight = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["8"]}
        world.add(pool(limits={GPU: "12"}, requirements=[eight]))
        world.node("full", gpus=1)
        members = gang(world, "train", 3, gpus=4)
        await world.settle(5)
        assert reasons(world, members) == ["WaitingForNodeLimits"] * 3
        assert "it takes 16 of nvidia.com/gpu" in world.why("train-0")
        limits = {"spec": {"limits": {GPU: "80", "nodes": "1"}}}
        assert world.request("PATCH", f"{POOLS}/gpus", limits) == 200
        await world.settle(30)
        assert "leave 1 node for new nodes, and it takes 2 nodes" in world.why("train-0")

    in_world(story)
