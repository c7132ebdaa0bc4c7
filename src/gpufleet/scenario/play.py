"""One scenario from its text to its decisions and what differs from what was expected."""

from pathlib import Path

import msgspec

from gpufleet.devices.documents import read_document
from gpufleet.devices.yaml_text import SIZE_MAX_BYTES
from gpufleet.engine import event
from gpufleet.files.regular import read_regular
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import NodeName
from gpufleet.model.labels import LabelSelector, Operator, Requirement
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.resources import Resources
from gpufleet.scenario.amounts import microseconds
from gpufleet.scenario.expectation import Difference, differences
from gpufleet.scenario.fleet import AMPLE_BYTES, AMPLE_CPU_MILLI, AMPLE_PODS, nodes_of, queue_of, topology_of
from gpufleet.scenario.scenario_engine import Decision, ScenarioEngine
from gpufleet.scenario.scenario_errors import ScenarioError
from gpufleet.scenario.text import BudgetText, NodesText, QueueText, ScenarioText, StepText, WorkText
from gpufleet.scenario.work import NAMESPACE, Work, work_of

FORMAT = "v1"
AFTERLIFE = ("return", "vanish")


class PlayOutcome(msgspec.Struct, frozen=True):
    """What came of a scenario: its decisions in their order, and each difference."""

    file: str
    title: str
    source: str
    decisions: list[Decision]
    differences: list[Difference]

    @property
    def passed(self) -> bool:
        """True if everything expected came true."""
        return not self.differences


def play_file(path: Path) -> PlayOutcome:
    """Play the scenario of a file. Raises InputError, naming file and field, for a bad one."""
    try:
        data = read_regular(path, SIZE_MAX_BYTES)
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", where=str(path)) from error
    text = read_document(data, ScenarioText, str(path), ScenarioError)
    try:
        return _Play(text, str(path)).play()
    except InputError as error:
        if error.where:
            raise
        raise ScenarioError(
            error.problem, field=error.field, value=error.value, expected=error.expected, where=str(path)
        ) from error


class _Play:
    """A scenario on its engine."""

    def __init__(self, text: ScenarioText, where: str) -> None:
        # Checked first: another format may have other fields, and every later error would mislead.
        if text.scenario != FORMAT:
            raise ScenarioError("no such format", field="scenario", value=text.scenario, expected=FORMAT)
        if text.settings.evicted not in AFTERLIFE:
            expected = " or ".join(AFTERLIFE)
            raise ScenarioError(
                "no such afterlife", field="settings.evicted", value=text.settings.evicted, expected=expected
            )
        self.text = text
        self.where = where
        self.scenario_engine = ScenarioEngine(
            text.settings.policy,
            text.settings.seed,
            preempt_by_priority=text.settings.preempt_by_priority,
            evicted_return=text.settings.evicted == "return",
            eviction_takes_us=microseconds(text.settings.eviction_takes, "settings.evictionTakes"),
        )
        self.differences: list[Difference] = []
        self._seen = 0

    def play(self) -> PlayOutcome:
        """Everything from the first moment to the last."""
        text = self.text
        first = StepText(
            queues=text.queues,
            nodes=text.nodes or [],
            budgets=text.budgets,
            submit=text.work,
            expect=text.expect,
            at="0s",
        )
        if text.topology:
            self.scenario_engine.player.happen([event.TopologySet(topology_of(text.topology))])
        self._step(first, "")
        for place, step in enumerate(text.steps):
            self._step(step, f"steps[{place}].")
        return PlayOutcome(
            self.where, text.title, text.source, self.scenario_engine.decisions, self.differences
        )

    def _step(self, step: StepText, field: str) -> None:
        if step.at is not None:
            at_us = microseconds(step.at, f"{field}at")
            if at_us < self.scenario_engine.player.at_us:
                raise ScenarioError("time goes back", field=f"{field}at", value=step.at, expected="later")
            self.scenario_engine.player.wait_until(at_us)
        self.scenario_engine.player.happen(self._events(step, field))
        decided = self.scenario_engine.decisions[self._seen :]
        self._seen = len(self.scenario_engine.decisions)
        self.differences += differences(
            step.expect, self.scenario_engine, decided, f"{field}expect", self.text.topology
        )

    def _events(self, step: StepText, field: str) -> list[event.Event]:
        names = "work" if not field else f"{field}submit"
        events: list[event.Event] = []
        for place, queue in enumerate(step.queues):
            events.append(self._queue(queue, f"{field}queues[{place}]"))
        events += [self.scenario_engine.remove_queue(name) for name in step.remove_queues]
        for place, nodes in enumerate(step.nodes):
            events += self._nodes(nodes, f"{field}nodes[{place}]")
        events += [self._without(name, f"{field}removeNodes") for name in step.remove_nodes]
        # Ends before new work, so that work of one moment finds the room that others leave then.
        events += [one for name in step.end for one in self._end(name, f"{field}end")]
        events += [_budget(text) for text in step.budgets]
        for place, text in enumerate(step.submit):
            events += self._submit(text, f"{names}[{place}]")
        return events

    def _queue(self, text: QueueText, field: str) -> event.Event:
        return event.QueueSet(queue_of(text, field))

    def _nodes(self, text: NodesText, field: str) -> list[event.Event]:
        nodes = nodes_of(text, field)
        self.scenario_engine.nodes.update({node.name: node for node in nodes})
        return [event.NodeSet(node) for node in nodes]

    def _without(self, name: str, field: str) -> event.Event:
        if self.scenario_engine.nodes.pop(NodeName(name), None) is None:
            raise ScenarioError("no such node", field=field, value=name, expected="a node of the scenario")
        return event.NodeRemoved(NodeName(name))

    def _end(self, name: str, field: str) -> list[event.Event]:
        if not self.scenario_engine.uids_of(name):
            raise ScenarioError("no such work", field=field, value=name, expected="work that has not ended")
        return self.scenario_engine.end(name)

    def _submit(self, text: WorkText, field: str) -> list[event.Event]:
        work = work_of(text, self.scenario_engine.player.at_us, field)
        if work.name in self.scenario_engine.work:
            raise ScenarioError(
                "there twice", field=f"{field}.name", value=work.name, expected="another name"
            )
        for name in work.runs_on:
            if name not in self.scenario_engine.nodes:
                raise ScenarioError("no such node", field=f"{field}.runsOn", value=name)
        if self.text.nodes is not None:
            return self.scenario_engine.submit(work)
        own = [_own_node(work, place) for place in range(len(work.pods))]
        self.scenario_engine.nodes.update({node.name: node for node in own})
        return [*(event.NodeSet(node) for node in own), *self.scenario_engine.submit(work)]


def _budget(text: BudgetText) -> event.Event:
    selector = LabelSelector(
        tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(text.labels.items()))
    )
    return event.DisruptionBudgetSet(DisruptionBudget(text.name, NAMESPACE, selector, text.allowed))


def _own_node(work: Work, place: int) -> Node:
    """Without nodes in the scenario, every pod has one that suits it."""
    pod = work.pods[place]
    gpu = pod.shape.gpu
    text = NodesText(
        name=f"for-{pod.name}",
        gpus=gpu.count,
        model=gpu.models[0] if gpu.models else "any",
        gpu_memory=max(gpu.memory_mib or 0, 80 * 1024),
    )
    node = nodes_of(text, "nodes")[0]
    other = pod.shape.resources.other
    ample = Resources(AMPLE_CPU_MILLI, AMPLE_BYTES, AMPLE_PODS, AMPLE_BYTES, other)
    return msgspec.structs.replace(node, allocatable=ample, labels=dict(pod.shape.node_selector))
