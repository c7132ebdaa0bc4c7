"""What the engine says over a simulated cluster is what is shown, with queues and without."""

from typing import Any

from gpufleet.cluster.settings import Settings
from gpufleet.kube.client import Client
from gpufleet.overview.readings.engine_asking import ask_engine
from gpufleet.overview.readings.readings import Readings, Scope
from gpufleet.overview.rows.engine_report import EngineReport
from gpufleet.overview.rows.known import FleetPart
from gpufleet.top.showing import ViewLines
from tests.explain.test_seeing_queues import GANG, WithoutPods, add_queue, crowded
from tests.scheduler.world import World, in_world

SETTINGS = Settings(identity="top")


def client_of(world: World, client_type: type[Client] = Client) -> Client:
    return client_type(world.transport("system:masters"), world.clock, world.random)


async def lines(world: World, view: str) -> list[Any]:
    """The lines of a view, with the engine asked."""
    readings = Readings(client_of(world), SETTINGS, Scope(), None)
    await readings.list_all()
    readings.engine_report = await ask_engine(readings.client, SETTINGS)
    return ViewLines("gpufleet").of(view, readings.known())[0]


def test_queues_and_waiting_pods_are_as_gpufleet_queues_and_explain_say() -> None:
    async def story(world: World) -> None:
        await crowded(world)
        queues = {line.name: line for line in await lines(world, "queue")}
        assert (queues["a"].used, queues["a"].borrowed, queues["c"].why) == ("6", "2", "1 quota")
        (waits,) = [line for line in await lines(world, "pod") if line.state == "waits"]
        assert (waits.name, waits.queue, waits.position) == ("c-waits", "c", 1)
        assert waits.why == world.why("c-waits")
        (node,) = await lines(world, "node")
        assert (node.gpus, node.gpus_held, node.pods) == (8, 8.0, 3)

    in_world(story)


def test_work_outside_of_every_queue_has_its_cause_too() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        world.pod("large", gpus=2)
        await world.settle()
        (line,) = await lines(world, "pod")
        assert (line.state, line.cause) == ("waits", "gpu-count")

    in_world(story)


def test_a_gang_is_shown_with_the_members_that_have_come() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=8)
        world.pod("train-0", labels=GANG)
        await world.settle()
        (line,) = await lines(world, "gang")
        assert (line.namespace, line.name, line.state) == ("default", "train", "waits")
        assert (line.members_placed, line.members_arrived, line.members_min) == (0, 1, 3)
        assert line.cause == "gang-short"

    in_world(story)


def test_without_the_right_to_list_pods_queues_are_shown_as_they_were_written() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=8)
        add_queue(world, "a", quotas=[{"resource": "gpu", "nominal": 4}])
        await world.settle(30)
        client = client_of(world, WithoutPods)
        engine_report: EngineReport = await ask_engine(client, SETTINGS)
        assert not engine_report.by_engine
        assert engine_report.notes[0] == "you may not list pods of the whole cluster"
        readings = Readings(client, SETTINGS, Scope(home="team"), None)
        await readings.list_all()
        readings.engine_report = engine_report
        known = readings.known()
        assert known.unread[FleetPart.PODS] == "you may not list pods in team"
        (line,) = ViewLines("gpufleet").of("queue", known)[0]
        assert (line.name, line.quota) == ("a", "4")

    in_world(story)
