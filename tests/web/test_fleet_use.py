"""Use of all cards: fresh numbers for each card of a node's row, and a reason for the others."""

import asyncio
from array import array
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from gpufleet.model.model_errors import WorldError
from gpufleet.usage.agent_series import BUSY, MEMORY_USED, SAMPLE_AGE
from gpufleet.usage.agent_use import CardUse, NodeUse
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.window import Window
from gpufleet.web.documents import Card, FleetUseDocument, NodeRow, NodeUseRow
from gpufleet.web.fleet_state import FleetState
from gpufleet.web.fleet_use import IN_TURN, PAUSE_S, FleetUse
from gpufleet.web.rights import ALL, Rights
from gpufleet.web.view_rows import ViewRows
from tests.web.set_clock import SetClock


class Prometheus:
    """Knows ratios by node and card, and how old a node's are."""

    url = "http://prometheus"

    def __init__(self) -> None:
        self.busy: dict[tuple[str, str], float] = {}
        self.memory: dict[tuple[str, str], float] = {}
        self.ages_s: dict[str, float] = {}
        self.problem = ""
        self.asked: list[str] = []

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:  # noqa: ARG002  as sources have it
        """The series of one query."""
        self.asked.append(promql)
        if self.problem:
            raise WorldError(self.problem)
        at = array("q", [window.last_s])
        if SAMPLE_AGE in promql:
            told = [Series({"node": node}, at, array("d", [age])) for node, age in self.ages_s.items()]
        else:
            values = self.memory if MEMORY_USED in promql else self.busy
            told = [
                Series({"exported_node": node, "uuid": card}, at, array("d", [ratio]))
                for (node, card), ratio in values.items()
            ]
        yield PrometheusAnswer(tuple(told))


class Agents:
    """Answers for each node that is not among those that fail."""

    def __init__(self, clock: SetClock) -> None:
        self.use: dict[str, NodeUse] = {}
        self.failed: dict[str, str] = {}
        self.failing: set[str] = set()
        self.asked: list[list[str]] = []
        self._clock = clock

    async def read(self, nodes: Iterable[str], agents: Mapping[str, Any]) -> None:  # noqa: ARG002  as agents have it
        """Measure these nodes."""
        self.asked.append(list(nodes))
        for node in self.asked[-1]:
            if node in self.failing:
                self.failed[node] = "its agent does not answer within 3 s"
                continue
            cards = {f"{node}-0": CardUse(0.5, 100.0, 25.0, sample_age_s=2.0)}
            self.use[node] = NodeUse(self._clock.now().timestamp(), cards)


class World:
    """A fleet of nodes with two cards each, and someone who looks at it."""

    def __init__(self, *nodes: str, prometheus: Source | None = None) -> None:
        self.clock = SetClock()
        self.agents = Agents(self.clock)
        readings = SimpleNamespace(
            client=SimpleNamespace(clock=self.clock),
            devices=SimpleNamespace(objects={("", node): None for node in nodes}),
            agents=self.agents,
            settings=SimpleNamespace(lease_namespace="gpufleet-system"),
            all_pods=dict,
        )
        self.rows = {
            node: NodeRow(node, "ready", gpus=2, cards=(Card(f"{node}-1"), Card(f"{node}-0")))
            for node in nodes
        }
        self.use = FleetUse(cast("FleetState", SimpleNamespace(readings=readings)), prometheus)

    def look(self, rights: Rights = ALL) -> FleetUseDocument:
        """What the person is told."""
        rows = SimpleNamespace(rights=rights, nodes=lambda: self.rows)
        return asyncio.run(self.use.now(cast("ViewRows", rows)))


def test_an_agent_tells_each_card_of_the_row_in_its_order_and_how_old_that_is() -> None:
    told = World("a").look()
    assert told.nodes == (NodeUseRow("a", 2.0, (None, 0.5), (None, 0.25)),)
    assert told.unknown == ""


def test_a_measurement_grows_old_and_is_none_in_the_end() -> None:
    world = World("a")
    world.look()
    world.agents.failing.add("a")
    world.clock.advance(60)
    assert world.look().nodes[0].age_s == 62.0
    world.clock.advance(60)
    told = world.look()
    assert told.nodes == ()
    assert told.unknown == "use of 1 node is not known: its agent does not answer within 3 s"


def test_it_is_measured_once_for_all_that_look_within_a_while() -> None:
    world = World("a")
    world.look()
    world.look()
    assert len(world.agents.asked) == 1
    world.clock.advance(PAUSE_S)
    world.look()
    assert len(world.agents.asked) == 2


def test_agents_of_a_large_fleet_are_asked_in_turns_and_that_is_said() -> None:
    names = [f"n{number:04d}" for number in range(3 * IN_TURN)]
    world = World(*names)
    assert world.look().unknown == (
        f"use of {2 * IN_TURN} nodes is not known: agents are asked in turns, {IN_TURN} each; "
        "with --prometheus all are known at once"
    )
    for _ in range(2):
        world.clock.advance(PAUSE_S)
        told = world.look()
    assert (len(told.nodes), told.unknown) == (len(names), "")
    assert sorted(node for asked in world.agents.asked for node in asked) == names


def test_prometheus_knows_all_nodes_at_once_and_impossible_values_are_unknown() -> None:
    prometheus = Prometheus()
    prometheus.busy = {("a", "a-0"): 0.973, ("a", "a-1"): 97.0, ("b", "b-0"): 0.1, ("c", "c-0"): 0.2}
    prometheus.memory = {("a", "a-1"): 0.5}
    prometheus.ages_s = {"a": 12.0, "b": 91.0}
    told = World("a", "b", "c", prometheus=prometheus).look()
    assert told.nodes == (NodeUseRow("a", 12.0, (None, 0.97), (0.5, None)),)
    assert told.unknown == (
        "use of 2 nodes is not known: Prometheus has no new metrics of them; "
        "http://prometheus tells values that no GPU can have, such as a ratio of 97; they are left out"
    )
    assert any(f'last_over_time({BUSY}{{mig_id=""}}[90s])' in promql for promql in prometheus.asked)


def test_a_prometheus_that_fails_is_said_and_what_it_told_grows_old() -> None:
    prometheus = Prometheus()
    prometheus.busy, prometheus.ages_s = {("a", "a-0"): 0.5}, {"a": 5.0}
    world = World("a", prometheus=prometheus)
    world.look()
    prometheus.problem = "it does not answer"
    world.clock.advance(30)
    assert world.look().nodes[0].age_s == 35.0
    world.clock.advance(60)
    told = world.look()
    assert (told.nodes, told.unknown) == ((), "use of 1 node is not known: it does not answer")


def test_who_may_not_list_nodes_and_devices_is_told_no_use_and_nothing_is_measured() -> None:
    world = World("a")
    for rights in (Rights(nodes=False), Rights(devices=False)):
        told = world.look(rights)
        assert (told.nodes, told.unknown) == ((), "you may not list nodes and nodedevices")
    assert world.agents.asked == []
