"""What all cards of the fleet do at once, for the map: from Prometheus, or from agents, some in each turn.

It is measured only while a page shows it, and all pages get the same. A measurement that is older than
``FRESH_S`` is none: an old number is no number. Use of one node or pod is in ``details``.
"""

import asyncio
import collections
import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.kube.codec.times import whole_time
from gpufleet.model.model_errors import GpufleetError
from gpufleet.model.phrases import counted
from gpufleet.overview.readings.agent_pages import FRESH_S, agents_of
from gpufleet.usage.agent_series import BUSY, MEMORY, MEMORY_USED, SAMPLE_AGE, is_possible, left_out
from gpufleet.usage.agent_use import NodeUse
from gpufleet.usage.prometheus.answer import CLUSTER
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.moment import values_at
from gpufleet.web.documents import FleetUseDocument, NodeRow, NodeUseRow
from gpufleet.web.fleet_state import FleetState
from gpufleet.web.view_rows import ViewRows

PAUSE_S, PAUSE_FACTOR = 10.0, 50.0
"""It is measured again after this time, and after so many times as long as it took."""

PAUSE_MAX_S = 60.0
"""What was measured is fresh until then; a server that answers late is waited for, which costs nothing."""

IN_TURN = 64
"""Agents that are asked at one time: a few seconds, and little for an API server."""

TURN_S = 6.0
"""For all of them; those that do not answer by then have their next turn."""

OF_CARD = f"node, exported_node, uuid, {CLUSTER}"
OF_NODE = f"node, exported_node, {CLUSTER}"
WHOLE = '{mig_id=""}'
"""A card as a whole; an instance of MIG tells of itself too."""


class CardLoad(NamedTuple):
    """How busy a card is, and how much of its memory is used; None is unknown."""

    busy_ratio: float | None = None
    memory_ratio: float | None = None


class NodeLoad(NamedTuple):
    """The cards of a node by UUID, as they were at ``at_s`` (seconds since 1970)."""

    at_s: float
    cards: Mapping[str, CardLoad]


class FleetUse:
    """The newest measurement of each node. Without a ``source`` agents are asked."""

    def __init__(self, state: FleetState, source: Source | None) -> None:
        self._state = state
        self._source = source
        self._loads: dict[str, NodeLoad] = {}
        self._problem = ""
        self._left_out = ""
        self._measuring = asyncio.Lock()
        self._next_s = 0.0
        self._turn = 0

    async def now(self, view_rows: ViewRows) -> FleetUseDocument:
        """What is known, measured anew where that is due."""
        clock = self._state.readings.client.clock
        at = whole_time(clock.now())
        if not (view_rows.rights.nodes and view_rows.rights.devices):
            return FleetUseDocument(at, unknown="you may not list nodes and nodedevices")
        async with self._measuring:
            if clock.monotonic_s() >= self._next_s:
                began_s = time.monotonic()
                await self._measure()
                took_s = time.monotonic() - began_s
                self._next_s = clock.monotonic_s() + min(PAUSE_MAX_S, max(PAUSE_S, PAUSE_FACTOR * took_s))
        now_s = clock.now().timestamp()
        rows = tuple(_rows(view_rows.nodes(), self._loads, now_s))
        return FleetUseDocument(at, rows, self._unknown(len(view_rows.nodes()) - len(rows)))

    def _unknown(self, nodes: int) -> str:
        """Why nothing is known of so many nodes, or what is left out of others; "" where nothing is."""
        if nodes <= 0:
            return self._left_out
        return f"use of {counted(nodes, 'node')} is not known: {self._problem or self._reason(nodes)}"

    def _reason(self, nodes: int) -> str:
        if self._source is not None:
            return "; ".join(filter(None, ("Prometheus has no new metrics of them", self._left_out)))
        failed = collections.Counter(self._state.readings.agents.failed.values())
        if 2 * failed.total() >= nodes:
            return failed.most_common(1)[0][0]
        return f"agents are asked in turns, {IN_TURN} each; with --prometheus all are known at once"

    async def _measure(self) -> None:
        if self._source is None:
            await self._ask_agents()
            return
        source, now_s = self._source, int(self._state.readings.client.clock.now().timestamp())
        try:
            self._loads, self._left_out = await in_daemon_thread(lambda: _asked(source, now_s))
            self._problem = ""
        except GpufleetError as error:
            self._problem = str(error)

    async def _ask_agents(self) -> None:
        readings = self._state.readings
        names = sorted(name for _, name in readings.devices.objects)
        if not names:
            return
        chosen = [names[(self._turn + place) % len(names)] for place in range(min(IN_TURN, len(names)))]
        self._turn = (self._turn + IN_TURN) % len(names)
        agents = agents_of(readings.all_pods().values(), readings.settings.lease_namespace)
        # Those that have answered by then count.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TURN_S):
                await readings.agents.read(chosen, agents)
        self._loads = {name: _load(use) for name, use in readings.agents.use.items()}


def _load(use: NodeUse) -> NodeLoad:
    ages = [card.sample_age_s for card in use.cards.values() if card.sample_age_s is not None]
    # As old as the oldest of its cards.
    return NodeLoad(
        use.at_s - max(ages, default=0.0),
        {
            id_: CardLoad(card.busy_ratio, _ratio(card.memory_used_bytes, card.memory_bytes))
            for id_, card in use.cards.items()
        },
    )


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _asked(source: Source, now_s: int) -> tuple[dict[str, NodeLoad], str]:
    """What Prometheus knows of all cards, by three queries without the labels that are long, and what of it
    is left out.
    """
    age = f"{SAMPLE_AGE}{WHOLE}"
    ages = f"max by ({OF_NODE}) ({age} + (time() - timestamp({age})))"
    memory = f"{_newest(MEMORY_USED)} / {_newest(MEMORY)}"
    at_s = {
        node: now_s - age_s
        for node, _, age_s in _values(source, ages, now_s)
        if is_possible(SAMPLE_AGE, age_s)
    }
    busy = {(node, uuid): value for node, uuid, value in _values(source, _newest(BUSY), now_s)}
    used = {(node, uuid): value for node, uuid, value in _values(source, memory, now_s)}
    cards: dict[str, dict[str, CardLoad]] = {}
    for node, uuid in busy.keys() | used.keys():
        load = CardLoad(_possible(busy.get((node, uuid))), _possible(used.get((node, uuid))))
        cards.setdefault(node, {})[uuid] = load
    wrong = next((ratio for ratio in (*busy.values(), *used.values()) if _possible(ratio) is None), None)
    without = "" if wrong is None else left_out(source.url, "a ratio of", wrong)
    return {node: NodeLoad(at_s[node], found) for node, found in cards.items() if node in at_s}, without


def _newest(name: str) -> str:
    return f"avg by ({OF_CARD}) (last_over_time({name}{WHOLE}[{FRESH_S:.0f}s]))"


def _possible(ratio: float | None) -> float | None:
    """A ratio that a card can have; a rule may put other numbers under these names."""
    return ratio if ratio is not None and 0 <= ratio <= 1 else None


def _values(source: Source, promql: str, now_s: int) -> Iterator[tuple[str, str, float]]:
    for one in values_at(source, promql, now_s, "use"):
        node = one.labels.get("node") or one.labels.get("exported_node")
        if node:
            yield node, one.labels.get("uuid", ""), one.value


def _rows(nodes: Mapping[str, NodeRow], loads: Mapping[str, NodeLoad], now_s: float) -> Iterator[NodeUseRow]:
    """A row for each node with a fresh measurement: its cards in the order of the node's own row."""
    for name, row in nodes.items():
        load = loads.get(name)
        if load is None or now_s - load.at_s > FRESH_S or not row.cards:
            continue
        found = [load.cards.get(card.id, CardLoad()) for card in row.cards]
        if any(one != CardLoad() for one in found):
            yield NodeUseRow(
                name,
                round(max(0.0, now_s - load.at_s), 1),
                tuple(_short(one.busy_ratio) for one in found),
                tuple(_short(one.memory_ratio) for one in found),
            )


def _short(ratio: float | None) -> float | None:
    """A percent is all that a map shows, and ten thousand nodes have many of them."""
    return None if ratio is None else round(ratio, 2)
