"""Decision rounds: what was seen goes to the engine, what it says is carried out.

A round takes everything that lies on the ``change_queue`` and every result of earlier instructions, turns it
into events (``cluster.engine_events``), takes one step of the engine and hands its instructions on
(``dispatch``). It runs when something happened or when a part of the scheduler asked to be woken, never in
parallel with itself, and never waits for the network.

A step with much to do is taken a slice at a time: what a slice decided is carried out, and other parts of the
scheduler have their turn, before the next slice begins. What is seen meanwhile waits for the next round.
"""

import asyncio
import logging
from collections.abc import Generator
from typing import Protocol

from gpufleet.cluster.engine_events import EngineEvents
from gpufleet.cluster.engine_time import EngineTime
from gpufleet.cluster.pods.pod_entry import PodStage
from gpufleet.cluster.watching.change_queue import ChangeQueue, Seen
from gpufleet.engine.event import DecisionsDeferred, Event
from gpufleet.engine.instruction import AnyInstruction, Learn, RequeueAfter
from gpufleet.engine.scheduler import Engine
from gpufleet.engine.work_slices import SLICE_WORK
from gpufleet.kube import resources
from gpufleet.kube.clock import Clock
from gpufleet.kube.mirror_changes import Appeared
from gpufleet.model.identifiers import PodUid
from gpufleet.scheduler.dispatch import Dispatch
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.short_gangs import ShortGangs

LOG = logging.getLogger(__name__)
IDLE_S = 5.0
"""The longest time without a round, so that health can tell a stuck loop from an idle one."""

Parts = Generator[None, None, None]
"""Others may have their turn at each yield."""


class Record(Protocol):
    """Keeps a step of the engine, or a slice of it that ``goes_on``; the first slice has the events."""

    def __call__(
        self, at_us: int, events: tuple[Event, ...], instructions: list[AnyInstruction], /, *, goes_on: bool
    ) -> None:
        """Keep it, before any of it is carried out."""
        ...


class Rounds:
    """Runs rounds. ``record`` is given every step, for the event log."""

    def __init__(
        self,
        engine: Engine,
        change_queue: ChangeQueue,
        engine_events: EngineEvents,
        dispatch: Dispatch,
        short_gangs: ShortGangs,
        time: EngineTime,
        metrics: Metrics,
        record: Record | None = None,
    ) -> None:
        self.engine = engine
        self.change_queue = change_queue
        self.engine_events = engine_events
        self.dispatch = dispatch
        self.short_gangs = short_gangs
        self.time = time
        self.clock: Clock = time.clock
        self.metrics = metrics
        self.record = record
        self.turned_at_s = self.clock.monotonic_s()
        self._due_us: int | None = None

    async def run(self) -> None:
        """Take rounds until cancelled."""
        while True:
            await self.change_queue.wait(self._pause_s())
            await self.take()

    async def take(self) -> None:
        """One round, now, between whose slices others have their turn."""
        for _ in self._turn():
            await asyncio.sleep(0)

    def turn(self) -> None:
        """One round, now and as a whole."""
        for _ in self._turn():
            pass

    def _turn(self) -> Parts:
        began_s = self.clock.monotonic_s()
        # Each step names anew when it wants to be asked; what an earlier one wanted is met by this round.
        self._due_us = None
        # The moment first: ``take`` empties the queue and forgets it.
        first_at_s, seen = self.change_queue.first_at_s, self.change_queue.take()
        yield from self._step(self.engine_events.take(seen))
        # A second step: those of the first have their places before the others are considered.
        for wave in self.engine_events.waves():
            yield from self._step(wave)
        # After all steps: what is told of a pod is what holds at the end of the round.
        self.dispatch.after_round()
        self.short_gangs.after_round()
        self.turned_at_s = self.clock.monotonic_s()
        self.metrics.rounds.inc()
        self.metrics.round_seconds.observe(self.turned_at_s - began_s)
        if first_at_s is not None:
            self._measure(seen, self.turned_at_s - first_at_s)

    def _measure(self, seen: list[Seen], took_s: float) -> None:
        """Each pod that came with this round has its first verdict now, or its place."""
        for kind, change in seen:
            if kind != resources.PODS or not isinstance(change, Appeared):
                continue
            entry = self.engine_events.pods.entries.get(PodUid(change.object.metadata.uid))
            if entry is not None and entry.place in (PodStage.WAITING, PodStage.HELD):
                self.metrics.first_verdict_seconds.observe(took_s)

    def _step(self, events: list[Event]) -> Parts:
        if self.engine.learns_first(events):
            events = [*events, DecisionsDeferred()]
        learn = yield from self._one_step(events)
        if learn:
            # What was learned is used from the next decision on; it cannot cause another valuation.
            yield from self._one_step([self.engine.study()])

    def _one_step(self, events: list[Event]) -> Generator[None, None, bool]:
        """One step; True if a valuation is to be learned."""
        # A clock that was set back does not take engine time with it.
        at_us = max(self.engine.at_us, self.time.now_us())
        events_taken, learn = tuple(events), False
        for instructions in self.engine.slices(at_us, events, SLICE_WORK):
            goes_on = self.engine.goes_on
            if self.record is not None:
                # The log has a decision before any of it is carried out.
                self.record(at_us, events_taken, instructions, goes_on=goes_on)
                events_taken = ()
            learn |= self._carry_out(instructions)
            if goes_on:
                # A loop that goes on is not stuck.
                self.turned_at_s = self.clock.monotonic_s()
                yield
        return learn

    def _carry_out(self, instructions: list[AnyInstruction]) -> bool:
        """Hand on what a step, or a slice of one, said; True if a valuation is to be learned."""
        learn = False
        for instruction in instructions:
            if isinstance(instruction, RequeueAfter):
                self._due_us = instruction.at_us
            elif isinstance(instruction, Learn):
                learn = True
            else:
                self.dispatch.carry_out(instruction)
        # The victims of one workload come in several instructions, all in one slice, and are evicted as one
        # plan, so that begins when the slice is over.
        self.dispatch.after_step()
        return learn

    def _pause_s(self) -> float:
        pauses = [IDLE_S]
        if self._due_us is not None:
            pauses.append(self.time.until_s(self._due_us))
        due_s = self.dispatch.next_due_s()
        if due_s is not None:
            pauses.append(due_s - self.clock.monotonic_s())
        # A moment that has passed already gives a negative pause.
        return max(0.0, min(pauses))
