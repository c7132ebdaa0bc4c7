"""Plays one engine forward in virtual time, as a discrete-event simulation.

A moment has rounds. The first tells the engine what happened, each further one what follows from the
instructions of the round before: a pod that was bound runs, an evicted pod has ended, a valuation was
learned. The moment is over when nothing follows. Time then goes to the next thing that is due: the end of a
pod, an arrival, or the step that the engine asked for by ``RequeueAfter``.

What becomes of a pod differs between a replay, a scenario and a what-if question. Each says it by its
``Consequences``.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Protocol

from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.event import DecisionsDeferred, Event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Learn, RequeueAfter
from gpufleet.model.identifiers import PodUid

ROUNDS_MAX = 10_000
"""Rounds at one moment. No fleet needs as many, so more of them are decisions that go in circles."""


class Decider(Protocol):
    """The engine, or the engine behind a wrapper that measures or logs its steps."""

    def step(self, at_us: int, events: Sequence[Event], /) -> list[AnyInstruction]:
        """Take in events and decide."""
        ...

    def learns_first(self, events: Sequence[Event], /) -> bool:
        """True if the policy should learn from these events before it decides anything."""
        ...

    def study(self) -> Event:
        """The valuation that the policy asked for, as an event."""
        ...


class Consequences(Protocol):
    """What comes of instructions and of things that are due.

    Each method that returns events returns what the engine is told next.
    """

    def started(self, bind: Bind) -> Iterable[Event]:
        """A pod was bound and runs."""
        ...

    def evicted(self, evict: Evict) -> Iterable[Event]:
        """A pod was told to end."""
        ...

    def other_instruction(self, said: AnyInstruction) -> None:
        """The engine said something from which nothing follows: a refusal, a nomination, a reservation."""
        ...

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """The time of these pods has come, in this order."""
        ...


class Player:
    """One engine in virtual time. Time only goes forward."""

    def __init__(self, engine: Decider, consequences: Consequences, at_us: int = 0) -> None:
        self.engine = engine
        self.at_us = at_us
        self._consequences = consequences
        self._due: list[tuple[int, int, PodUid]] = []
        self._step_due_us: int | None = None

    def later(self, due_us: int, uid: PodUid, turn: int = 0) -> None:
        """Something is due for a pod. What is due at one moment goes by ``turn``, then by uid."""
        heapq.heappush(self._due, (due_us, turn, uid))

    def happen(self, events: Iterable[Event]) -> None:
        """Tell the engine these events now, and all that follows from them at this moment."""
        happening = list(events)
        if self.engine.learns_first(happening):
            happening.append(DecisionsDeferred())
        for _ in range(ROUNDS_MAX):
            following: list[Event] = []
            for said in self.engine.step(self.at_us, happening):
                following += self._carry_out(said)
            if not following:
                return
            happening = following
        raise BrokenInvariantError(f"decisions at {self.at_us} microseconds come to no end")

    def _carry_out(self, said: AnyInstruction) -> Iterable[Event]:
        """What follows from an instruction at once."""
        match said:
            case Bind():
                return self._consequences.started(said)
            case Evict():
                return self._consequences.evicted(said)
            case Learn():
                return (self.engine.study(),)
            case RequeueAfter(due_us):
                self._step_due_us = due_us
            case _:
                self._consequences.other_instruction(said)
        return ()

    def next_due_us(self) -> int | None:
        """When the next thing is due; None if nothing is."""
        if not self._due:
            return self._step_due_us
        due_us = self._due[0][0]
        return due_us if self._step_due_us is None else min(due_us, self._step_due_us)

    def go_on(self) -> bool:
        """Let time pass to the next thing that is due, and play it. False if nothing is due.

        What becomes due while a moment is played, at that very moment, is played as the next one.
        """
        due_us = self.next_due_us()
        if due_us is None:
            return False
        # Time does not go back for what was overdue when it was announced.
        self.at_us = max(self.at_us, due_us)
        # The engine says anew at each step when it wants the next one.
        self._step_due_us = None
        uids = []
        while self._due and self._due[0][0] <= self.at_us:
            uids.append(heapq.heappop(self._due)[2])
        self.happen(self._consequences.due(uids) if uids else ())
        return True

    def wait_until(self, at_us: int) -> None:
        """Let time pass to this moment. What is due by then is played, each at its time."""
        while (due_us := self.next_due_us()) is not None and due_us <= at_us:
            self.go_on()
        self.at_us = max(self.at_us, at_us)
