"""All parts at work: what is followed becomes rows, the engine is asked when something has changed.

``routes`` answers people from it, ``process`` runs it.
"""

import asyncio
import time

import msgspec

from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.resources import FLEET_QUEUES, Kind
from gpufleet.overview.readings.kind_reader import KindReader
from gpufleet.overview.rows.known import Key
from gpufleet.web.asking.process import Asking
from gpufleet.web.asking.questions import HowQueuesStand
from gpufleet.web.documents import Source, SourceState
from gpufleet.web.fleet_state import FleetState
from gpufleet.web.rights import ALL, Rights
from gpufleet.web.view_rows import ViewRows

TICK_S = 1.0
"""Between two looks at what has changed: rows of a busy fleet change many times within it."""

READING_S = 0.1
"""While the cluster is read for the first time."""

ENGINE_PAUSE_S, ENGINE_PAUSE_FACTOR = 5.0, 10.0
"""The engine is asked again after this time, and after so many times as long as it took."""

QUIET_S, QUIET_FACTOR = 60.0, 50.0
"""As above where nothing has changed, but work waits: how long it waits is a reason too."""

UNUSED_S = 120.0
"""Rows for rights that were not used for so long are dropped."""


class Service:
    """The rows by rights, and what keeps them current."""

    def __init__(self, state: FleetState, asking: Asking) -> None:
        self.state = state
        self.asking = asking
        self._by_rights: dict[Rights, ViewRows] = {}
        self._used_at_s: dict[Rights, float] = {}
        self._source = state.source()
        self._has_told = False
        self._is_changed = True
        self._asked_at_s = 0.0
        self._took_s = 0.0
        client = state.readings.client
        self._queues = KindReader(client, FLEET_QUEUES, FleetQueue, optional=True, heard=self._heard_queue)

    def _heard_queue(self, _kind: Kind, _key: Key) -> None:
        self._is_changed = True

    def view_rows_for(self, rights: Rights) -> ViewRows:
        """The rows for these rights; the first time they are made, which takes a second on a large fleet."""
        self._used_at_s[rights] = self._now_s()
        view_rows = self._by_rights.get(rights)
        if view_rows is None:
            self.tick()
            view_rows = self._by_rights[rights] = ViewRows(self.state, rights)
        return view_rows

    def source(self) -> Source:
        """How current all rows are."""
        return self._source

    @property
    def is_whole(self) -> bool:
        """Whether the cluster was read once."""
        return self.state.readings.is_whole

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        self.view_rows_for(ALL)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.state.readings.follow())
            group.create_task(self._queues.run())
            group.create_task(self._ticks())
            group.create_task(self._ask_again_and_again())

    async def _ticks(self) -> None:
        while True:
            self.tick()
            self._drop_unused()
            await asyncio.sleep(TICK_S if self.is_whole else READING_S)

    def tick(self) -> None:
        """Bring the rows up to date with what was heard of."""
        has_report, self._has_told = self._has_told, False
        changed = self.state.take()
        if changed.nodes or changed.pods or has_report:
            before = [view_rows.version for view_rows in self._by_rights.values()]
            for view_rows in self._by_rights.values():
                view_rows.update(changed, has_report=has_report)
            is_new = before != [view_rows.version for view_rows in self._by_rights.values()]
            self._is_changed |= bool(changed.pods) or (is_new and not has_report)
        self._look_at_source()

    def _look_at_source(self) -> None:
        now = self.state.source()
        if now.state is SourceState.AWAY and self._source.state is SourceState.AWAY:
            # The moment at which it was heard last is told to the second, and does not move.
            now = msgspec.structs.replace(now, as_of=self._source.as_of or now.as_of)
        if now != self._source:
            self._source = now
            for view_rows in self._by_rights.values():
                view_rows.wake()

    def _drop_unused(self) -> None:
        now_s = self._now_s()
        for rights, view_rows in list(self._by_rights.items()):
            if view_rows.watchers:
                self._used_at_s[rights] = now_s
            # Most people may see everything, and the first rows are to be there at once.
            elif rights != ALL and now_s - self._used_at_s[rights] > UNUSED_S:
                del self._by_rights[rights], self._used_at_s[rights]

    async def _ask_again_and_again(self) -> None:
        while True:
            if self._is_due():
                await self._ask()
            await asyncio.sleep(TICK_S)

    def _is_due(self) -> bool:
        """Whether someone watches, and the engine's answer may be another one than the last."""
        readings = self.state.readings
        if not self.is_whole or not any(view_rows.watchers for view_rows in self._by_rights.values()):
            return False
        if readings.engine_report is None and not self._asked_at_s:
            return True
        since_s = self._now_s() - self._asked_at_s
        if self._is_changed:
            return since_s >= max(ENGINE_PAUSE_S, ENGINE_PAUSE_FACTOR * self._took_s)
        waits = readings.engine_report is None or any(
            one.pods_waiting for one in readings.engine_report.queues.queues
        )
        return waits and since_s >= max(QUIET_S, QUIET_FACTOR * self._took_s)

    async def _ask(self) -> None:
        self._is_changed = False
        began_s = time.monotonic()
        reply = await self.asking.ask(HowQueuesStand())
        self._took_s = time.monotonic() - began_s
        self._asked_at_s = self._now_s()
        readings = self.state.readings
        if reply.engine_report is not None:
            readings.engine_report, readings.engine_problem = reply.engine_report, ""
            self._has_told = True
        elif reply.problem is not None:
            # The answer before stays, and since when it is old is said.
            readings.engine_problem = f"the engine could not be asked: {reply.problem.problem}"
            self._is_changed = True
            # A question that failed is asked again soon: how long it took says nothing of the next.
            self._took_s = 0.0
        self.tick()

    def _now_s(self) -> float:
        return self.state.readings.client.clock.monotonic_s()
