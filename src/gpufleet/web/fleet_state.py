"""What is followed of a cluster for everyone who watches, and what of it has changed since it was last asked.

Objects come by watches. Only what was heard of is looked at again, so that a fleet of 10,000 nodes at rest
costs next to nothing; ``view_rows`` makes rows of it for each kind of rights.
"""

import datetime as dt
from collections.abc import Mapping
from typing import NamedTuple

from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.resources import PODS, Kind
from gpufleet.overview.readings.kind_reader import Heard
from gpufleet.overview.readings.readings import Readings
from gpufleet.overview.rows.known import Key, Known
from gpufleet.overview.rows.pod_facts import PodFact, PodFacts
from gpufleet.overview.rows.pods import WITHOUT_NODE
from gpufleet.web.documents import DecisionRow, Source, SourceState
from gpufleet.web.rights import Rights
from gpufleet.web.rows.decisions import decision_row


class Changed(NamedTuple):
    """The nodes and pods that have changed since the last time."""

    nodes: frozenset[str]
    pods: frozenset[Key]


class EarlyChanges:
    """What was heard of, until it is taken; given to the readers before anything else is there."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.pods: set[Key] = set()

    def hear(self, kind: Kind, key: Key) -> None:
        """An object of the kind appeared, changed or is gone."""
        if kind == PODS:
            self.pods.add(key)
        else:
            self.nodes.add(key[1])

    @property
    def sink(self) -> Heard:
        """The function that readers call with what they heard of."""
        return self.hear


class FleetState:
    """The pods that ask for GPUs, where they are, and the newest decision about each."""

    def __init__(self, readings: Readings, heard: EarlyChanges) -> None:
        self.readings = readings
        self.facts: dict[Key, PodFact] = {}
        self.decisions: dict[Key, DecisionRow] = {}
        self._heard = heard
        self._pod_facts = PodFacts(readings.settings.scheduler_name)
        self._on_node: dict[str, set[Key]] = {}

    @property
    def known(self) -> Known:
        """Everything as it stands now."""
        return self.readings.known()

    def take(self) -> Changed:
        """What has changed since this was called last; the facts are brought up to date."""
        nodes, heard = self._heard.nodes, self._heard.pods
        self._heard.nodes, self._heard.pods = set(), set()
        # What a share of a card is may depend on the report of its node.
        unclear = {
            key for name in nodes for key in self._on_node.get(name, ()) if self.facts[key].gpus_milli is None
        }
        pods = self.readings.all_pods()
        devices = self.readings.devices.objects
        changed: set[Key] = set()
        for key in heard | unclear:
            pod, before = pods.get(key), self.facts.get(key)
            fact = None if pod is None else self._pod_facts.read(pod, devices)
            if fact is None and before is None:
                continue
            changed.add(key)
            nodes |= self._move(key, before, fact)
        return Changed(frozenset(nodes), frozenset(changed))

    def _move(self, key: Key, before: PodFact | None, fact: PodFact | None) -> set[str]:
        """Note the new fact; returns the nodes that it concerns."""
        nodes = set()
        if before is not None and before.pod.spec.node_name:
            node = before.pod.spec.node_name
            nodes.add(node)
            there = self._on_node.get(node, set())
            there.discard(key)
            if not there:
                self._on_node.pop(node, None)
        if fact is None:
            self.facts.pop(key, None)
            self.decisions.pop(key, None)
            return nodes
        self.facts[key] = fact
        decided = decision_row(fact)
        if decided is not None:
            self.decisions[key] = decided
        else:
            self.decisions.pop(key, None)
        if fact.pod.spec.node_name:
            nodes.add(fact.pod.spec.node_name)
            self._on_node.setdefault(fact.pod.spec.node_name, set()).add(key)
        return nodes

    def placed(self, node: str) -> list[PodFact]:
        """The pods with GPUs on a node, in the order of their names."""
        return [self.facts[key] for key in sorted(self._on_node.get(node, ()))]

    def everything(self) -> Changed:
        """All nodes and pods that are known, for rows that are made for the first time."""
        readings = self.readings
        names = {name for _, name in (*readings.nodes.objects, *readings.devices.objects)}
        return Changed(frozenset(names), frozenset(self.facts))

    def namespaces(self) -> frozenset[str]:
        """The namespaces of the pods that ask for GPUs."""
        return frozenset(namespace for namespace, _ in self.facts)

    def waiting(self) -> Mapping[Key, PodFact]:
        """The pods without a node."""
        return {key: fact for key, fact in self.facts.items() if fact.state in WITHOUT_NODE}

    def rights(self) -> Rights:
        """What was not refused: of what is read with a person's own rights, all is theirs to see."""
        readings = self.readings
        refused = any(one.refused for one in readings.pods)
        namespaces = frozenset(readings.namespaces) if readings.namespaces or refused else None
        return Rights(namespaces, not readings.nodes.refused, not readings.devices.refused)

    def source(self) -> Source:
        """How current all of it is, and what needs a person."""
        readings, now = self.readings, self.readings.client.clock.now()
        stale_s, trouble = readings.stale_s(), readings.trouble()
        leading = readings.leading
        problems = (f"{leading.problem}: nothing starts; {leading.way_out}",) if leading.problem else ()
        engine_report = readings.engine_report
        notes = tuple(
            note
            for note in (
                leading.note,
                readings.engine_problem,
                *(() if engine_report is None else (*engine_report.notes, *engine_report.queues.notes)),
            )
            if note
        )
        is_away = bool(trouble) and (stale_s is None or stale_s > 0)
        state = SourceState.LIVE if readings.is_whole else SourceState.READING
        as_of = ""
        if is_away:
            state = SourceState.AWAY
            as_of = "" if stale_s is None else whole_time(now - dt.timedelta(seconds=stale_s))
        return Source(
            state,
            as_of,
            trouble if is_away else "",
            problems,
            notes,
            "" if engine_report is None else engine_report.queues.at,
        )
