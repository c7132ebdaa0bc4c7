"""Reservations in a cluster: whom they keep off, what the status says, and what a new leader takes up."""

from typing import Any

import msgspec
import pytest

from gpufleet.kube.transport import Request
from tests.scheduler.world import Object, World, in_world

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
IN_TEAM = {"gpufleet.io/queue": "team"}


def team(world: World) -> None:
    """A queue whose work reserves at once."""
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    world.add({**kind, "metadata": {"name": "team"}, "spec": {"reserveAfter": "0s"}})


def work(world: World, name: str, *, gpus: int, run_time: str = "", node: str = "", **more: Any) -> None:
    """A pod of the team, on a node of its choice."""
    annotations = {"gpufleet.io/run-time": run_time} if run_time else {}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    world.pod(name, gpus=gpus, labels=IN_TEAM, annotations={**annotations, **more}, **spec)


def status(world: World) -> Object:
    answer = world.server.answer(Request("GET", f"{QUEUES}/team"), "system:masters")
    found: Object = msgspec.json.decode(answer.body).get("status", {})
    return found


def reserved_nodes(world: World) -> list[str]:
    """The nodes of the reservation that the queue's status tells of."""
    told = status(world).get("reservation") or {}
    return [place["node"] for place in told.get("places", [])]


async def change_leaders(world: World, *, away_s: float = 5.0) -> None:
    """The leader ends, and some time later another one starts."""
    await world.stop()
    await world.clock.sleep(away_s)
    world.start()
    await world.settle(30)


async def a_gang_that_waits(world: World) -> None:
    """Of two GPUs one is free; a gang wants both."""
    team(world)
    world.node("n", gpus=2)
    work(world, "old", gpus=1, run_time="20m")
    await world.settle(5)
    gang = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
    for name in ("train-0", "train-1"):
        work(world, name, gpus=1, **gang)
    await world.settle(5)
    work(world, "brief", gpus=1, run_time="10m")
    work(world, "endless", gpus=1)
    await world.settle(30)


@pytest.mark.parametrize("restarts", [False, True])
def test_small_work_that_ends_before_runs_and_other_work_waits_for_the_gang(restarts: bool) -> None:
    async def story(world: World) -> None:
        await a_gang_that_waits(world)
        if restarts:
            await change_leaders(world)
        assert (world.node_of("brief"), world.node_of("endless")) == ("n", "")
        assert "holds a reservation of 1 node, expected to start at" in world.why("train-0")
        assert status(world)["reservation"]["name"] == "gang/default/train"
        assert len(status(world)["reservation"]["waitsFor"]) == 2
        world.finish("brief")
        await world.settle(200)
        assert world.node_of("endless") == ""
        held = "waits for gang default/train of queue team, which holds a reservation of 1 node, expected to"
        assert held in world.why("endless")
        world.finish("old")
        await world.settle(10)
        assert (world.node_of("train-0"), world.node_of("train-1")) == ("n", "n")
        assert status(world)["reservation"]["name"] == "default/endless"

    in_world(story)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_new_leader_keeps_the_place_that_the_old_one_reserved(restarts: bool) -> None:
    async def story(world: World) -> None:
        team(world)
        world.node("a", gpus=1)
        world.node("b", gpus=1)
        work(world, "long", gpus=1, run_time="1h", node="a")
        work(world, "short", gpus=1, run_time="10m", node="b")
        await world.settle(10)
        work(world, "waits", gpus=1)
        await world.settle(15)
        before = status(world)["reservation"]
        assert reserved_nodes(world) == ["b"]
        # By now the work on b is overdue: who sought anew would rather wait for a.
        if restarts:
            await change_leaders(world, away_s=900)
        else:
            await world.settle(930)
        after = status(world)["reservation"]
        assert reserved_nodes(world) == ["b"]
        assert "expectedStart" not in after
        unchanged = ("holder", "name", "since", "places", "waitsFor")
        assert [before.get(field) for field in unchanged] == [after.get(field) for field in unchanged]
        world.finish("short")
        await world.settle(10)
        assert world.node_of("waits") == "b"

    in_world(story)


FORGED = [
    7,
    {"holder": "x", "places": [7]},
    {"holder": "", "since": "yesterday", "places": [{"pod": "x", "node": "n"}]},
    {
        "holder": "x",
        "since": "2026-01-01T00:00:00Z",
        "places": [{"pod": "x", "node": "n", "devices": ["GPU-n-0"]}],
    },
    {"holder": "gang/default/train", "since": "9999-12-31T23:59:59Z", "waitsFor": ["x"] * 50, "places": []},
]


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_what_a_user_wrote_as_a_reservation_stops_no_new_leader(forged: Any) -> None:
    async def story(world: World) -> None:
        await a_gang_that_waits(world)
        before = status(world)["reservation"]
        await world.stop()
        world.request("PATCH", f"{QUEUES}/team/status", {"status": {"reservation": forged}})
        world.start()
        await world.settle(30)
        after = status(world)["reservation"]
        assert [after.get(field) for field in ("holder", "places")] == [before["holder"], before["places"]]

    in_world(story)
