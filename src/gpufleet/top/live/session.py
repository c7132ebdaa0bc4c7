"""A session at a terminal: what is read becomes lines, keys change what is chosen, and both become frames.

Objects are followed and measured use is read in the background; keys are answered from what is known.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

from gpufleet.kube.connection import connect
from gpufleet.model.model_errors import GpufleetError
from gpufleet.overview.readings.engine_process import EngineProcess
from gpufleet.overview.readings.prometheus_use import PrometheusUse
from gpufleet.overview.readings.readings import Readings, Scope, following
from gpufleet.overview.rows.lines import NodeLine
from gpufleet.top.labelled import ALL_SHOWN, WITHOUT_LABELS
from gpufleet.top.live.terminal import Terminal
from gpufleet.top.request import TopRequest
from gpufleet.top.screen import keys
from gpufleet.top.screen.choice import Choice, pressed
from gpufleet.top.screen.frame import Frame, frame
from gpufleet.top.screen.order import Order, matching
from gpufleet.top.screen.views import VIEWS
from gpufleet.top.showing import NEEDS_ENGINE, NEEDS_USE, Freshness, ViewLines, header, missing

CONNECTIONS = 16
"""Pages of agents are read beside lists; a watch has a connection of its own."""
READING_S = 0.05
"""Between two looks for the first lines."""
LISTING_S = 0.5
"""Between two frames while further pages come in: each makes all lines, and the lists have to go on."""
TICK_S = 1.0
"""Between two frames later on: ages grow by the second."""
ESCAPE_S = 0.05
"""No terminal takes longer for the rest of a key."""
ENGINE_PAUSE_S, ENGINE_PAUSE_FACTOR = 5.0, 10.0
"""The engine is asked again after this time, and after so many times as long as it took: a large fleet costs
it seconds, and its API server a list of everything."""
MORE_NODES = 32
"""Beside the nodes on the screen, so many others are measured each time, in turns."""
BLOCK = 4096
"""Bytes of keys at a time; pasted text may be longer and comes in several."""


class Session:
    """What one terminal shows."""

    def __init__(self, request: TopRequest, readings: Readings, terminal: Terminal, *, colored: bool) -> None:
        self.request = request
        self.readings = readings
        self.terminal = terminal
        self.colored = colored
        self.choice: Choice = request.choice()
        self.orders = {name: Order() for name in VIEWS}
        self.lines: list[Any] = []
        self.shown: Frame = Frame(())
        self._view_lines = ViewLines(request.scheduler_name, request.selector)
        self._all: list[Any] = []
        self._summary = ""
        self._known = readings.known()
        self._read_of = ""
        self._next_node = 0
        self.woken = asyncio.Event()
        """Set when there is something to draw."""
        self.asked = asyncio.Event()
        """Set when a view was chosen, or a refresh was asked for."""

    def read(self) -> None:
        """Make lines of what is known now."""
        self._known = self.readings.known()
        self._all, self._summary = self._view_lines.of(self.choice.view, self._known, self.readings.changes)
        self._read_of = self.choice.view

    def draw(self) -> None:
        """Show the lines as they are chosen."""
        if self._read_of != self.choice.view:
            self.read()
        choice, view = self.choice, VIEWS[self.choice.view]
        ordered = self.orders[choice.view].of(view, self._all, choice.sort_by, reverse=choice.reverse)
        self.lines = matching(view, ordered, choice.filter)
        now = self.readings.client.clock.now()
        readings = self.readings
        fresh = Freshness(readings.stale_s(), readings.trouble(), readings.is_whole)
        above = header(self._summary, fresh, self._problems(), self._notes(), now)
        size = self.terminal.size()
        self.shown = frame(view, self.lines, above, choice, size, now, colored=self.colored)
        self.terminal.draw(self.shown.rows)

    def press(self, key: str) -> None:
        """Answer a key."""
        before, view = self.choice, VIEWS[self.choice.view]
        page = max(1, len(self.shown.shown))
        self.choice = pressed(before, key, [view.key(line) for line in self.lines], page)
        if (self.choice.view, self.choice.refreshes) != (before.view, before.refreshes):
            self.asked.set()

    def nodes_to_measure(self) -> list[str]:
        """The nodes on the screen, and some others in turns."""
        on_screen = [
            line.name if isinstance(line, NodeLine) else getattr(line, "node", "")
            for line in self.shown.shown
        ]
        every = sorted(name for _, name in self.readings.devices.objects)
        first = self._next_node % len(every) if every else 0
        others = [*every[first:], *every[:first]][:MORE_NODES]
        self._next_node = first + len(others)
        return list(dict.fromkeys([*(one for one in on_screen if one), *others]))

    def _problems(self) -> list[str]:
        """What needs a person."""
        leading = self.readings.leading
        return [f"{leading.problem}: nothing starts; {leading.way_out}"] if leading.problem else []

    def _notes(self) -> list[str]:
        """What is not known, once all was read that can be."""
        if not self.readings.is_whole:
            return []
        found = missing(self.choice.view, self._known)
        if self.request.selector is not None and self.choice.view in WITHOUT_LABELS:
            found.append(ALL_SHOWN)
        if self.choice.view in NEEDS_USE:
            found.append(self.readings.use_problem() if self._known.use else "")
        engine_report, problem = self.readings.engine_report, self.readings.engine_problem
        if self.choice.view in NEEDS_ENGINE and engine_report is not None and problem:
            found.append(f"reasons are of {engine_report.queues.at}: {problem}")
        return [one for one in found if one]

    async def follow_use(self) -> None:
        """Measure again and again, what the view needs."""
        while True:
            if self.choice.view in NEEDS_USE:
                await self.readings.read_use(self.nodes_to_measure(), with_past=self.choice.view == "idle")
                self.read()
                self.woken.set()
            await self._pause(self.request.interval_s)

    async def follow_engine(self, engine: EngineProcess) -> None:
        """Ask the engine again and again while a view shows its answer."""
        while True:
            pause_s = self.request.interval_s
            if self.choice.view in NEEDS_ENGINE:
                pause_s = max(pause_s, ENGINE_PAUSE_S)
                try:
                    engine_report = await engine.ask()
                except GpufleetError as error:
                    # An old answer stays, and since when it is old is said.
                    self.readings.engine_failed(error)
                else:
                    self.readings.engine_report, self.readings.engine_problem = engine_report, ""
                    pause_s = max(pause_s, ENGINE_PAUSE_FACTOR * engine_report.took_s)
                self.read()
                self.woken.set()
            await self._pause(pause_s)

    async def _pause(self, length_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(length_s):
                await self.asked.wait()
                self.asked.clear()

    async def follow_objects(self) -> None:
        """Make lines anew when objects changed, not more often than is asked for."""
        seen = -1
        while True:
            if self.readings.changes != seen:
                seen = self.readings.changes
                self.read()
                self.woken.set()
            pause_s = LISTING_S if self._all else READING_S
            await asyncio.sleep(self.request.interval_s if self.readings.is_whole else pause_s)


async def run(request: TopRequest, *, reads: int, writes: int, colored: bool) -> int:
    """Show the view until a key or a signal ends it; returns 0, or 128 and the number of the signal."""
    logging.getLogger().addHandler(logging.NullHandler())
    request.choice()
    source = None if request.prometheus is None else PrometheusUse(request.prometheus)
    async with connect(request.cluster, connections=CONNECTIONS) as connection:
        scope = Scope(request.namespaces, request.all_namespaces, connection.namespace)
        readings = Readings(connection.client, request.settings, scope, source)
        with Terminal(reads, writes) as terminal:
            session = Session(request, readings, terminal, colored=colored)
            async with _background(session, readings, request) as parts:
                return await _interact(session, parts)


@contextlib.asynccontextmanager
async def _background(
    session: Session, readings: Readings, request: TopRequest
) -> AsyncIterator[list[asyncio.Future[Any]]]:
    """All that reads, while the block lasts."""
    async with EngineProcess(request.of_engine) as engine, following(readings) as objects:
        tasks = [
            asyncio.ensure_future(work)
            for work in (session.follow_use(), session.follow_engine(engine), session.follow_objects())
        ]
        try:
            yield [objects, *tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _interact(session: Session, parts: list[asyncio.Future[Any]]) -> int:
    """Draw and read keys until the end is wanted; an error of a part that reads comes out here."""
    loop, reader, ended = asyncio.get_running_loop(), keys.KeyReader(), [0]

    def hear() -> None:
        try:
            data = os.read(session.terminal.reads, BLOCK)
        except OSError:
            data = b""
        if not data:
            # Nothing can be read any more: the terminal is gone.
            end(signal.SIGHUP)
        for key in reader.read(data):
            session.press(key)
        session.woken.set()

    def end(number: int) -> None:
        ended[0] = 128 + number
        session.woken.set()

    def resized() -> None:
        session.terminal.forget()
        session.woken.set()

    loop.add_reader(session.terminal.reads, hear)
    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(one, end, one)
    loop.add_signal_handler(signal.SIGWINCH, resized)
    try:
        while not session.choice.is_over and not ended[0]:
            session.draw()
            for part in parts:
                if part.done():
                    part.result()
            await _woken(session, ESCAPE_S if reader.waits else TICK_S)
            # What began like a sequence and did not go on was the key Escape.
            if reader.waits and not session.woken.is_set():
                for key in reader.end():
                    session.press(key)
            session.woken.clear()
    finally:
        loop.remove_reader(session.terminal.reads)
        for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGWINCH):
            loop.remove_signal_handler(one)
    return ended[0]


async def _woken(session: Session, limit_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await session.woken.wait()
