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


@pytest.mark.parametrize("report", ["is there", "is gone", "cannot be read"])
@pytest.mark.parametrize("home", ["a", "b"])
def test_a_device_that_a_pod_holds_is_given_on_no_other_node_whatever_is_read_first(
    home: str, report: str
) -> None:
    async def story(world: World) -> None:
        other = {"a": "b", "b": "a"}[home]
        # The report of the node that is taken over is the older one.
        world.node(other, gpus=2)
        await world.settle()
        world.node(home, gpus=2)
        await world.settle()
        world.pod("first", gpus=1, nodeSelector={"kubernetes.io/hostname": home})
        await world.settle()
        assert world.node_of("first") == home
        await world.stop()
        reports(world, other, *devices(home), *devices(other))
        if report == "is gone":
            assert world.request("DELETE", f"{REPORTS}/{home}") == 200
        elif report == "cannot be read":
            broken = {"spec": {"devices": [{"id": 7}]}}
            assert world.request("PATCH", f"{REPORTS}/{home}", broken, f"system:node:{home}") == 200
        world.start()
        names = [f"pod-{number}" for number in range(4)]
        for name in names:
            world.pod(name)
        await world.settle()
        placed = [name for name in names if world.node_of(name)]
        assert [world.node_of(name) for name in placed] == ([home] if report == "is there" else [])
        assert not {one for name in placed for one in world.devices_of(name)} & set(world.devices_of("first"))

    in_world(story)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("honest", ["a", "b"])
def test_a_node_that_begins_to_name_free_devices_of_an_older_report_takes_no_work_from_it(
    honest: str, restarts: bool
) -> None:
    async def story(world: World) -> None:
        other = {"a": "b", "b": "a"}[honest]
        world.node(honest, gpus=2)
        await world.settle()
        world.node(other, gpus=2)
        await world.settle()
        reports(world, other, *devices(honest), *devices(other))
        await world.settle()
        if restarts:
            await world.stop()
            world.start()
        names = [f"pod-{number}" for number in range(3)]
        for name in names:
            world.pod(name)
        await world.settle()
        assert sorted(world.node_of(name) for name in names) == ["", honest, honest]

    in_world(story)


def test_a_node_that_is_not_believed_takes_no_work_from_a_third() -> None:
    async def story(world: World) -> None:
        for name in ("taken-over", "at-work", "idle"):
            world.node(name, gpus=1)
            await world.settle()
        world.pod("first", nodeSelector={"kubernetes.io/hostname": "at-work"})
        await world.settle()
        reports(world, "taken-over", "GPU-taken-over-0", "GPU-at-work-0", "GPU-idle-0")
        await world.settle()
        world.pod("second")
        world.pod("third")
        await world.settle()
        assert sorted(world.node_of(name) for name in ("second", "third")) == ["", "idle"]

    in_world(story)


def test_when_the_grants_end_the_older_report_is_believed_and_only_that() -> None:
    async def story(world: World) -> None:
        world.node("older", gpus=1)
        await world.settle()
        world.node("younger", gpus=1)
        await world.settle()
        world.pod("first", nodeSelector={"kubernetes.io/hostname": "younger"})
        await world.settle()
        reports(world, "older", "GPU-younger-0")
        await world.settle()
        for name in ("second", "third"):
            world.pod(name)
        await world.settle()
        assert [world.node_of(name) for name in ("second", "third")] == ["", ""]
        world.finish("first")
        await world.settle()
        assert sorted(world.node_of(name) for name in ("second", "third")) == ["", "older"]

    in_world(story)
