"""One node, or one pod or gang, in full: rows that are known, what the engine says, and what is measured.

Only what a person asks for is measured, by its node's agent or from Prometheus.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.listing import Selection
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import EVENTS
from gpufleet.overview.rows.known import Key
from gpufleet.overview.rows.pod_facts import PodFact
from gpufleet.overview.rows.use import pod_use
from gpufleet.usage.agent_use import NodeUse
from gpufleet.web.asking.process import Asking
from gpufleet.web.asking.questions import WhyWorkWaits
from gpufleet.web.documents import (
    CardUseRow,
    ConditionRow,
    HistoryRow,
    NodeDocument,
    NodeRow,
    Refusal,
    TaintRow,
    WorkDevice,
    WorkDocument,
    WorkRow,
)
from gpufleet.web.fleet_state import FleetState
from gpufleet.web.login.person import RefusedError
from gpufleet.web.rows.cards import grants_of
from gpufleet.web.rows.work import key_of
from gpufleet.web.view_rows import ViewRows

EVENTS_MAX = 50
"""The newest of a pod's; a server keeps them for an hour."""

USE_S = 5.0
"""A person waits for the document; what an agent does not tell by then is unknown."""

LEFT_S = 15.0
"""A Prometheus that hangs is asked again after this time: each look at a node would wait for it."""

NOT_IN_TIME = f"use was not measured within {USE_S:.0f} s"

MEMBERS_MAX = 256
"""So many members of a gang have their history in its document."""

TOLD_ON_POD = (
    "you may not list pods of the whole cluster, which a full explanation needs; "
    "why it waits is what the scheduler wrote on the pod"
)


class _Event(Structure, frozen=True):
    metadata: Metadata
    reason: str = ""
    note: str = ""
    event_time: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int = 0
    series: "_Series | None" = None


class _Series(Structure, frozen=True):
    count: int = 1
    last_observed_time: str | None = None


_EVENT = msgspec.json.Decoder(_Event)
_WORK = msgspec.json.Decoder(WorkRow)


class Details:
    """Makes documents of what is followed and what is asked."""

    def __init__(self, state: FleetState, asking: Asking) -> None:
        self._state = state
        self._asking = asking
        self._measuring = asyncio.Lock()
        self._left_until_s = 0.0

    async def node(self, view_rows: ViewRows, name: str) -> NodeDocument:
        """A node. Raises RefusedError for one that is not there, or not for these rights."""
        row = view_rows.node(name)
        node = self._state.readings.nodes.objects.get(("", name))
        if row is None or node is None:
            raise RefusedError(404, Refusal("there is no such node with GPUs", "node", name))
        report = self._state.readings.devices.objects.get(("", name)) if view_rows.rights.devices else None
        use, unknown = await self._use_of(name)
        placed = self._state.placed(name)
        pods = [_work_row(view_rows, fact) for fact in placed]
        seen = tuple(one for one in pods if one is not None)
        taints = [TaintRow(one.key, one.effect, one.value) for one in node.spec.taints]
        if report is not None:
            taints += [
                TaintRow(taint.key, taint.effect, taint.value, device.id)
                for device in report.spec.devices
                for taint in device.taints
            ]
        return NodeDocument(
            self._now(),
            row,
            "" if report is None else report.spec.driver,
            tuple(
                ConditionRow(one.type, one.status, one.reason, one.message) for one in node.status.conditions
            ),
            tuple(taints),
            () if use is None or not view_rows.rights.devices else _card_uses(use, row, self._now_s()),
            unknown,
            seen,
            len(pods) - len(seen),
        )

    async def work(self, view_rows: ViewRows, kind: str, namespace: str, name: str) -> WorkDocument:
        """A pod or a gang. Raises RefusedError for one that is not there, or not for these rights."""
        raw = view_rows.views["work"].get(key_of(kind, namespace, name))
        # What may not be seen is not told from what is not there.
        if raw is None or not view_rows.rights.sees(namespace):
            raise RefusedError(
                404, Refusal("there is no such work with GPUs that you may see", kind, f"{namespace}/{name}")
            )
        row = _WORK.decode(raw)
        facts = self._facts_of(kind, namespace, name)
        notes: list[str] = []
        explanation = None
        if view_rows.rights.sees_all:
            reply = await self._asking.ask(WhyWorkWaits(kind, namespace, name))
            explanation = reply.explanation
            notes += [reply.problem.problem] if reply.problem is not None else []
        else:
            notes.append(TOLD_ON_POD)
        history = [one for fact in facts[:MEMBERS_MAX] for one in _conditions(fact.pod)]
        if kind == "pod" and facts:
            events, note = await self._events(facts[0].pod)
            history += events
            notes += [note] if note else []
        devices, unknown = await self._devices(facts)
        return WorkDocument(
            self._now(),
            row,
            explanation,
            tuple(sorted(history, key=lambda one: one.at)),
            tuple(devices),
            tuple(one for one in (_work_row(view_rows, fact) for fact in facts) if one)
            if kind == "gang"
            else (),
            unknown,
            tuple(notes),
        )

    def _facts_of(self, kind: str, namespace: str, name: str) -> list[PodFact]:
        if kind == "pod":
            fact = self._state.facts.get((namespace, name))
            return [] if fact is None else [fact]
        engine_report = self._state.readings.engine_report
        gangs = () if engine_report is None else engine_report.gangs
        members = next((one.pods for one in gangs if (one.namespace, one.name) == (namespace, name)), ())
        keys: Iterable[Key] = ((namespace, member) for member in members)
        return [self._state.facts[key] for key in keys if key in self._state.facts]

    async def _use_of(self, node: str) -> tuple[NodeUse | None, str]:
        """What a node's agent measures now, or why it is not known."""
        readings = self._state.readings
        clock = readings.client.clock
        async with self._measuring:
            if clock.monotonic_s() < self._left_until_s:
                return None, NOT_IN_TIME
            try:
                async with asyncio.timeout(USE_S):
                    await readings.read_use([node], with_past=False, only_these=True)
            except TimeoutError:
                # Agents are left alone by their own reader, one by one.
                if readings.prometheus is not None:
                    self._left_until_s = clock.monotonic_s() + LEFT_S
                return None, NOT_IN_TIME
        use, _ = readings.use()
        if node in use:
            return use[node], ""
        if readings.prometheus is not None:
            return None, readings.prometheus.why_unknown(node)
        return None, readings.agents.failed.get(node, "use was not measured")

    async def _devices(self, facts: list[PodFact]) -> tuple[list[WorkDevice], str]:
        found: list[WorkDevice] = []
        unknown = ""
        # Each node is asked in turn while a person waits, so of a large gang only the first ones are.
        for node in sorted({fact.pod.spec.node_name for fact in facts if fact.pod.spec.node_name})[:8]:
            use, problem = await self._use_of(node)
            unknown = unknown or problem
            for fact in facts:
                if fact.pod.spec.node_name == node:
                    found += self._devices_of(fact, use)
        return found, unknown

    def _devices_of(self, fact: PodFact, use: NodeUse | None) -> list[WorkDevice]:
        metadata, node = fact.pod.metadata, fact.pod.spec.node_name
        report = self._state.readings.devices.objects.get(("", node))
        models = {} if report is None else {one.id: one.model for one in report.spec.devices}
        grants = list(grants_of(fact))
        measured = {} if use is None else use.pods.get((metadata.namespace, metadata.name), {})
        whole = pod_use((metadata.namespace, metadata.name), use)
        found = []
        for one in grants:
            # A grant does not say which of several parts of a card is which, and power is of the whole pod.
            parts = [part for part in measured.values() if part.card == str(one.id)]
            part = parts[0] if len(parts) == 1 else None
            found.append(
                WorkDevice(
                    f"{metadata.namespace}/{metadata.name}",
                    node,
                    str(one.id),
                    models.get(str(one.id), ""),
                    one.gpu_milli,
                    one.memory_mib,
                    one.mig_profile or "",
                    None if part is None else part.used_ratio,
                    None if part is None else part.memory_used_bytes,
                    whole.power_watts if len(grants) == 1 else None,
                    None if use is None else use.age_s(str(one.id), self._now_s()),
                )
            )
        return found

    async def _events(self, pod: Pod) -> tuple[list[HistoryRow], str]:
        client = self._state.readings.client
        chosen = Selection(fields=f"regarding.uid={pod.metadata.uid}")
        try:
            raws = [
                raw
                async for page in client.list_pages(
                    EVENTS, namespace=pod.metadata.namespace, selection=chosen, retry_limits=ONE_TRY
                )
                for raw in page.items or ()
            ]
            events = [decode(bytes(raw), _EVENT) for raw in raws]
        except KubeError as error:
            return [], f"its Events cannot be listed: {error}"
        rows = [_history(one) for one in events]
        return sorted(rows, key=lambda row: row.at)[-EVENTS_MAX:], ""

    def _now(self) -> str:
        return whole_time(self._state.readings.client.clock.now())

    def _now_s(self) -> float:
        return self._state.readings.client.clock.now().timestamp()


def _work_row(view_rows: ViewRows, fact: PodFact) -> WorkRow | None:
    metadata = fact.pod.metadata
    if not view_rows.rights.sees(metadata.namespace):
        return None
    raw = view_rows.views["work"].get(key_of("pod", metadata.namespace, metadata.name))
    return None if raw is None else _WORK.decode(raw)


def _card_uses(use: NodeUse, row: NodeRow, now_s: float) -> tuple[CardUseRow, ...]:
    known = {card.id for card in row.cards}
    return tuple(
        CardUseRow(
            id_,
            one.busy_ratio,
            one.memory_used_bytes,
            one.memory_bytes,
            one.power_watts,
            one.temperature_celsius,
            use.age_s(id_, now_s),
        )
        for id_, one in sorted(use.cards.items())
        if id_ in known
    )


def _conditions(pod: Pod) -> list[HistoryRow]:
    """What a pod's conditions tell of it, from its creation on."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    found = [HistoryRow(pod.metadata.creation_timestamp or "", "created", pod=name)]
    for one in pod.status.conditions:
        if one.last_transition_time:
            text = one.message or one.reason
            found.append(HistoryRow(one.last_transition_time, f"{one.type}={one.status}", text, name))
    return found


def _history(one: _Event) -> HistoryRow:
    last = None if one.series is None else one.series.last_observed_time
    at = last or one.deprecated_last_timestamp or one.event_time or one.metadata.creation_timestamp or ""
    count = one.deprecated_count if one.series is None else one.series.count
    return HistoryRow(at, one.reason, one.note, count=max(1, count))
