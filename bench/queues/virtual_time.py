"""Work that arrives, runs for a while and ends, against one engine in virtual time.

``gpufleet.virtual_time`` lets time pass. Only the engine's own time is counted. Evicted work loses what it
did, and waits again under its first time of arrival.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Rejected
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.engine.work_slices import SLICE_WORK
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from gpufleet.virtual_time.player import Player

ARRIVAL = 0
"""The number of a job's life before its first start. Its lives as a running pod are counted from 1."""


class Job(msgspec.Struct, frozen=True):
    """One pod that arrives at a time and runs for a while, of a class that waits are reported by."""

    kind: str
    pod: Pod
    runs_us: int


class Waits(msgspec.Struct):
    """How long the work of one class waited, each for its first start, and from its arrival to the start that
    it ran to its end from; and how often it was evicted.
    """

    first_us: list[int] = []
    last_us: list[int] = []
    evictions: int = 0

    @property
    def mean_s(self) -> float:
        """The mean wait for the first start in seconds."""
        return mean_s(self.first_us)


class Change(NamedTuple):
    """A job begins to wait, to run, or not to run any more."""

    at_us: int
    what: Literal["waits", "runs", "leaves"]
    uid: PodUid


class Course(msgspec.Struct):
    """What came of a run: virtual time, processor time of decisions, waits by class, all changes in their
    order, and the time of running that evictions cost, in thousandths of a GPU times microseconds.
    """

    makespan_s: float = 0.0
    decision_s: float = 0.0
    slowest_step_s: float = 0.0
    slowest_slice_s: float = 0.0
    steps: int = 0
    waits: dict[str, Waits] = {}
    changes: list[Change] = []
    lost_milli_us: int = 0


class Run:
    """One engine and the work on its way.

    With ``confirmed`` it is told that what it bound runs, so that it counts what an eviction costs.
    """

    def __init__(self, policy: str, setting: list[event.Event], *, confirmed: bool = False) -> None:
        self.engine = Engine(find_policy(policy))
        self._confirmed = confirmed
        self.course = Course()
        self._player = Player(self, self)
        self._jobs: dict[PodUid, Job] = {}
        self._first_start: dict[PodUid, int] = {}
        self._last_start: dict[PodUid, int] = {}
        self._life: dict[PodUid, int] = {}
        self._sequence = 0
        self._ended = 0
        self._player.happen(setting)
        self.course = Course()

    def play(self, jobs: list[Job], ended: Callable[[int], None] | None = None) -> Course:
        """All jobs from their arrival to their end; ``ended`` hears how many have come to it."""
        for job in jobs:
            self._jobs[job.pod.uid] = job
            self._later(job.pod.created_at_us, job.pod.uid, ARRIVAL)
        while self._player.go_on():
            if ended is not None:
                ended(self._ended)
        # The engine may be asked to look again after all is done.
        self.course.makespan_s = self.course.changes[-1].at_us / 1e6
        self._report()
        return self.course

    def _later(self, at_us: int, uid: PodUid, life: int) -> None:
        """A job arrives, or a life of it ends; an eviction ends a life early."""
        self._sequence += 1
        self._player.later(at_us, PodUid(f"{uid}#{life}"), turn=self._sequence)

    def due(self, uids: Sequence[PodUid]) -> Iterable[event.Event]:
        """Jobs arrive, and lives that no eviction ended come to their end."""
        events: list[event.Event] = []
        for one in uids:
            name, _, life = one.rpartition("#")
            uid, number = PodUid(name), int(life)
            events += self._arrive(uid) if number == ARRIVAL else self._end(uid, number)
        return events

    def _arrive(self, uid: PodUid) -> list[event.Event]:
        self.course.changes.append(Change(self._player.at_us, "waits", uid))
        return [event.PodAdded(self._jobs[uid].pod)]

    def _end(self, uid: PodUid, life: int) -> list[event.Event]:
        if self._life[uid] != life:
            return []
        self._ended += 1
        self.course.changes.append(Change(self._player.at_us, "leaves", uid))
        return [event.PodRemoved(uid)]

    def step(self, at_us: int, events: Sequence[event.Event]) -> list[AnyInstruction]:
        """One step of the engine, in slices as the scheduler takes it, with its processor time."""
        said: list[AnyInstruction] = []
        began = before = time.process_time()
        for part in self.engine.slices(at_us, events, SLICE_WORK):
            said += part
            now = time.process_time()
            self.course.slowest_slice_s = max(self.course.slowest_slice_s, now - before)
            before = now
        took = before - began
        self.course.decision_s += took
        self.course.slowest_step_s = max(self.course.slowest_step_s, took)
        self.course.steps += 1
        return said

    def learns_first(self, events: Sequence[event.Event]) -> bool:
        """True if the policy should learn from these events before it decides anything."""
        return self.engine.learns_first(events)

    def study(self) -> event.Event:
        """A valuation. Its time is not that of a decision."""
        return self.engine.study()

    def started(self, bind: Bind) -> Iterable[event.Event]:
        """A job starts. It ends after its own length of time unless an eviction comes first."""
        uid, at_us = bind.uid, self._player.at_us
        life = self._life[uid] = self._life.get(uid, ARRIVAL) + 1
        self._first_start.setdefault(uid, at_us)
        self._last_start[uid] = at_us
        self.course.changes.append(Change(at_us, "runs", uid))
        self._later(at_us + self._jobs[uid].runs_us, uid, life)
        return [event.PodBound(self._jobs[uid].pod, bind.node, bind.devices)] if self._confirmed else []

    def evicted(self, evict: Evict) -> Iterable[event.Event]:
        """A job is gone at once and waits again."""
        uid, at_us = evict.uid, self._player.at_us
        job = self._jobs[uid]
        self._life[uid] += 1
        self._waits(job.kind).evictions += 1
        self.course.lost_milli_us += job.pod.shape.gpu.total_milli * (at_us - self._last_start[uid])
        self.course.changes += [Change(at_us, "leaves", uid), Change(at_us, "waits", uid)]
        return [event.PodRemoved(uid), event.PodAdded(job.pod)]

    def other_instruction(self, said: AnyInstruction) -> None:
        """The engine must take every event of a benchmark."""
        match said:
            case Rejected(_, problem):
                raise AssertionError(problem)

    def _waits(self, kind: str) -> Waits:
        return self.course.waits.setdefault(kind, Waits())

    def _report(self) -> None:
        for uid, job in self._jobs.items():
            waits = self._waits(job.kind)
            waits.first_us.append(self._first_start[uid] - job.pod.created_at_us)
            waits.last_us.append(self._last_start[uid] - job.pod.created_at_us)


def mean_s(waits_us: list[int]) -> float:
    """The mean in seconds, 0 of nothing."""
    return math.fsum(waits_us) / max(1, len(waits_us)) / 1e6


def percentile_s(waits_us: list[int], percent: int) -> float:
    """The smallest wait in seconds that so many percent do not exceed; 0 of nothing."""
    ordered = sorted(waits_us)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] / 1e6 if ordered else 0.0
