"""NodeDevices says what is so: soon, seldom, and whatever the API server does."""

import asyncio
import itertools
from datetime import datetime
from typing import Any

import msgspec

from gpufleet.agent.reports.node_devices import SPACING_S, NodeDevicesWriter
from gpufleet.agent.state.node_state import Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.health import Verdict
from tests.agent.api_world import REPORT, AgentWorld, Hindrance, in_agent_world
from tests.agent.node_values import BOOT, GPU, NODE, a_gpu, a_node, a_pod, by_uid, held


class Reporting:
    """A writer at work, and the topics that it follows."""

    def __init__(self, world: AgentWorld, *, ready: bool = True) -> None:
        self.world = world
        self.ready = ready
        self.gpus: Topic[NodeGpus] = Topic(a_node(a_gpu("GPU-0"), a_gpu("GPU-1")))
        self.holders: Topic[Holders] = Topic(())
        self.pods: Topic[NodePods] = Topic(by_uid(a_pod("a"), a_pod("b")))
        self.since = Topic("")
        self.writer = NodeDevicesWriter(
            world.client,
            self.gpus,
            self.holders,
            self.pods,
            lambda: self.ready,
            offered_since=self.since,
        )
        self.task = world.start(self.writer.run())

    def sicken(self, reason: str = "Xid 79") -> None:
        """The first card fails."""
        first, second = self.gpus.value.gpus
        sick = msgspec.structs.replace(first, health=Verdict.UNHEALTHY, reason=reason)
        self.gpus.publish(a_node(sick, second))

    def health(self) -> list[Any]:
        """As the server has it."""
        report = self.world.report()
        assert report is not None
        return [one.get("healthReason", "") for one in report["spec"]["devices"]]


def test_a_report_that_is_not_there_is_made_and_goes_with_its_node() -> None:
    async def story(world: AgentWorld) -> None:
        Reporting(world)
        await world.after(1.0)
        report = world.report()
        assert report is not None
        assert report["spec"]["bootID"] == BOOT
        assert [one["id"] for one in report["spec"]["devices"]] == ["GPU-0", "GPU-1"]
        assert report["spec"]["holders"] == []
        owner = report["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"]) == ("Node", NODE)

    in_agent_world(story)


def test_what_changes_is_there_within_a_second_and_what_does_not_is_not_written() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world)
        await world.after(5.0)
        assert len(world.writes()) == 1
        reporting.sicken()
        await world.after(1.0)
        assert reporting.health() == ["Xid 79", ""]
        reporting.holders.publish((held("a", GPU, "GPU-1"),))
        await world.after(1.0)
        report = world.report()
        assert report is not None
        assert [one["podUID"] for one in report["spec"]["holders"]] == ["uid-a"]
        reporting.pods.publish(by_uid(a_pod("a"), a_pod("b"), a_pod("c")))
        await world.after(5.0)
        assert len(world.writes()) == 3

    in_agent_world(story)


def test_it_tells_since_when_the_kubelet_knows_the_devices_and_an_agent_that_starts_leaves_that() -> None:
    async def story(world: AgentWorld) -> None:
        first = Reporting(world)
        await world.after(1.0)
        assert "offeredSince" not in (world.report() or {})["spec"]
        first.since.publish("2026-11-21T10:00:00.000000Z")
        await world.after(1.0)
        assert (world.report() or {})["spec"]["offeredSince"] == "2026-11-21T10:00:00.000000Z"
        first.task.cancel()
        second = Reporting(world)
        await world.after(5.0)
        assert len(world.writes()) == 2
        second.since.publish("2026-11-21T10:00:09.000000Z")
        await world.after(1.0)
        assert (world.report() or {})["spec"]["offeredSince"] == "2026-11-21T10:00:09.000000Z"

    in_agent_world(story)


def test_a_card_that_flaps_is_at_most_two_writes_a_second() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world)
        for number in range(200):
            reporting.sicken(f"Xid {number}")
            await world.after(0.02)
        await world.after(1.0)
        assert reporting.health()[0] == "Xid 199"
        times = world.writes()
        assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.95 * SPACING_S

    in_agent_world(story)


def test_nothing_is_reported_before_it_is_known() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world, ready=False)
        await world.after(5.0)
        assert world.report() is None
        reporting.ready = True
        await world.after(1.0)
        assert world.report() is not None

    in_agent_world(story)


def test_a_restarted_agent_takes_over_what_is_there() -> None:
    async def story(world: AgentWorld) -> None:
        first = Reporting(world)
        await world.after(1.0)
        first.task.cancel()
        await asyncio.gather(first.task, return_exceptions=True)
        Reporting(world)
        await world.after(5.0)
        assert len(world.writes()) == 1

    in_agent_world(story)


def test_whether_a_write_arrived_is_read_and_not_guessed() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world)
        await world.after(1.0)
        for arrives in (True, False):
            world.way.hindrances = [Hindrance("PATCH", 1, arrives)]
            before = len(world.writes())
            reporting.sicken(f"Xid {79 + arrives}")
            await world.after(3.0)
            assert reporting.health()[0] == f"Xid {79 + arrives}"
            assert len(world.writes()) == before + 1
            assert not reporting.writer.problem

    in_agent_world(story)


def test_a_report_that_somebody_changed_or_deleted_is_made_right() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world)
        await world.after(1.0)
        world.request("PATCH", REPORT, {"spec": {"devices": []}, "metadata": {"labels": {"mine": "x"}}})
        reporting.sicken()
        await world.after(3.0)
        assert reporting.health() == ["Xid 79", ""]
        report = world.report()
        assert report is not None
        assert report["metadata"]["labels"] == {"mine": "x"}
        world.request("DELETE", REPORT)
        reporting.sicken("Xid 95")
        await world.after(3.0)
        assert reporting.health() == ["Xid 95", ""]

    in_agent_world(story)


def test_a_report_that_was_deleted_changed_or_restored_is_made_right_within_seconds() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world)
        await world.after(5.0)
        older = world.report()
        reporting.holders.publish((held("a", GPU, "GPU-1"),))
        await world.after(5.0)
        whole = world.report()
        assert older is not None
        assert whole is not None
        kind, name = ("gpufleet.io", "nodedevices"), ("", NODE)
        for value in (None, older, {**older, "spec": {"devices": []}}, {**older, "spec": "none"}):
            world.server.store.put(kind, name, value, at_s=world.clock.monotonic_s(), user="restore")
            await world.after(3.0)
            now = world.report()
            assert now is not None
            assert now["spec"] == whole["spec"]
        assert len(world.writes()) < 12

    in_agent_world(story)


def test_a_kind_that_is_served_no_more_and_served_again_gets_its_report_within_seconds() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world)
        await world.after(5.0)
        whole = world.report()
        assert whole is not None
        kind = world.server.kinds["gpufleet.io", "v1alpha1", "nodedevices"]
        for away_s in (1.0, 60.0, 3600.0):
            name = ("", NODE)
            world.server.store.put(kind.key, name, None, at_s=world.clock.monotonic_s(), user="crd")
            world.server.withdraw(*kind.key)
            await world.after(away_s)
            assert away_s < 10 or reporting.writer.problem
            world.server.serve(kind)
            await world.after(11.0)
            now = world.report()
            assert now is not None
            assert now["spec"] == whole["spec"]

    in_agent_world(story)


def test_a_report_that_was_deleted_comes_back_without_a_change() -> None:
    async def story(world: AgentWorld) -> None:
        Reporting(world)
        await world.after(1.0)
        world.request("DELETE", REPORT)
        await world.after(700.0)
        assert world.report() is not None

    in_agent_world(story)


def test_a_server_that_does_not_know_the_kind_is_asked_again() -> None:
    async def story(world: AgentWorld) -> None:
        kind = world.server.kinds["gpufleet.io", "v1alpha1", "nodedevices"]
        world.server.withdraw("gpufleet.io", "nodedevices")
        reporting = Reporting(world)
        await world.after(60.0)
        assert "404" in reporting.writer.problem
        assert len(world.writes()) < 16
        world.server.serve(kind)
        await world.after(20.0)
        assert world.report() is not None
        assert not reporting.writer.problem

    in_agent_world(story)


def test_a_taint_tells_since_when_and_goes_with_what_it_told() -> None:
    async def story(world: AgentWorld) -> None:
        reporting = Reporting(world)
        await world.after(5.0)
        reporting.sicken("Xid 79: off the bus")
        await world.after(5.0)
        first, second = taints(world)
        assert second == []
        assert [(one["key"], one["effect"], one["value"]) for one in first] == [
            ("gpufleet.io/unhealthy", "NoSchedule", "xid-79")
        ]
        began = first[0]["timeAdded"]
        assert datetime.fromisoformat(began) <= world.client.clock.now()
        writes = len(world.writes())
        await world.after(1200.0)
        assert len(world.writes()) == writes
        reporting.sicken("it recovered and has to be quiet for 30 s")
        await world.after(5.0)
        assert [(one["value"], one["timeAdded"]) for one in taints(world)[0]] == [("recovering", began)]
        # Another life of the agent has nothing but the report to know it from.
        reporting.task.cancel()
        again = Reporting(world)
        again.sicken("it recovered and has to be quiet for 30 s")
        await world.after(5.0)
        assert taints(world)[0][0]["timeAdded"] == began
        again.gpus.publish(a_node(a_gpu("GPU-0"), a_gpu("GPU-1")))
        await world.after(5.0)
        assert taints(world) == [[], []]
        again.sicken("Xid 48: an error of its memory")
        await world.after(5.0)
        assert taints(world)[0][0]["timeAdded"] > began

    in_agent_world(story)


def taints(world: AgentWorld) -> list[Any]:
    """Those of each device, as the server has them."""
    report = world.report()
    assert report is not None
    return [one.get("taints", []) for one in report["spec"]["devices"]]
