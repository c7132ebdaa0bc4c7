"""A report that names devices of another node takes nothing of that node, and stops no scheduler."""

import pytest

from tests.scheduler.test_reports_that_go_away import listed
from tests.scheduler.world import World, in_world

REPORTS = "/apis/gpufleet.io/v1alpha1/nodedevices"


def reports(world: World, node: str, *ids: str) -> None:
    """The agent of a node, or whoever took it over, writes that it has these devices."""
    spec = {"spec": {"devices": listed(*ids)}}
    assert world.request("PATCH", f"{REPORTS}/{node}", spec, f"system:node:{node}") == 200


def devices(node: str) -> tuple[str, str]:
    return f"GPU-{node}-0", f"GPU-{node}-1"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_node_that_names_devices_of_another_gets_no_gpu_work(restarts: bool, count: int) -> None:
    async def story(world: World) -> None:
        for name in ("a", "b"):
            world.node(name, gpus=2)
        world.pod("first", gpus=2)
        await world.settle()
        home = world.node_of("first")
        other = {"a": "b", "b": "a"}[home]
        reports(world, other, *devices(home)[:count], *devices(other)[count:])
        await world.settle()
        if restarts:
            await world.stop()
            world.start()
        world.pod("second")
        world.pod("plain", gpus=0)
        await world.settle()
        assert world.node_of("second") == ""
        assert "without a readable report of their GPUs" in world.why("second")
        assert world.node_of("plain") != ""
        reports(world, other, *devices(other))
        await world.settle()
        assert world.devices_of("second")[0] in devices(other)

    in_world(story)


@pytest.mark.parametrize("way", ["names others", "is gone"])
def test_devices_that_moved_are_given_where_they_are_now(way: str) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.node("b", gpus=2)
        await world.settle()
        reports(world, "b", *devices("a"))
        await world.settle()
        if way == "is gone":
            assert world.request("DELETE", f"{REPORTS}/a") == 200
            assert world.request("DELETE", "/api/v1/nodes/a") == 200
        else:
            reports(world, "a", "GPU-new-0", "GPU-new-1")
        await world.settle()
        names = [f"pod-{number}" for number in range(2)]
        for name in names:
            world.pod(name, nodeSelector={"kubernetes.io/hostname": "b"})
        await world.settle()
        assert sorted(world.devices_of(name)[0] for name in names) == list(devices("a"))

    in_world(story)
