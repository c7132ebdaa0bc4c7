"""Work that arrives, runs for a while and ends, against one engine in virtual time.

Only the engine's own time is counted. Evicted work loses what it did, and waits again under its first
time of arrival.
"""

import heapq
import time

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import Bind, Evict, Learn, Rejected, RequeueAfter
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod


class Job(msgspec.Struct, frozen=True):
    """One pod that arrives at a time and runs for a while, of a class that waits are reported by."""

    kind: str
    pod: Pod
    runs_us: int


class Waits(msgspec.Struct):
    """How long the work of one class waited for its first start, and how often it was evicted."""

    jobs: int = 0
    waited_us: int = 0
    evictions: int = 0

    @property
    def mean_s(self) -> float:
        """The mean wait in seconds."""
        return self.waited_us / max(1, self.jobs) / 1e6


class Course(msgspec.Struct):
    """What came of a run: virtual time, decision time, waits by class, and work done against capacity."""

    makespan_s: float = 0.0
    decision_s: float = 0.0
    slowest_step_s: float = 0.0
    steps: int = 0
    waits: dict[str, Waits] = {}


class Run:
    """One engine and the work on its way."""

    def __init__(self, policy: str, setting: list[event.Event]) -> None:
        self.engine = Engine(find_policy(policy))
        self.course = Course()
        self._due: list[tuple[int, int, str, PodUid]] = []
        self._jobs: dict[PodUid, Job] = {}
        self._first_start: dict[PodUid, int] = {}
        self._life: dict[PodUid, int] = {}
        self._sequence = 0
        self._step(0, setting)
        self.course = Course()

    def play(self, jobs: list[Job]) -> Course:
        """All jobs from their arrival to their end."""
        for job in jobs:
            self._jobs[job.pod.uid] = job
            self._later(job.pod.created_at_us, "arrive", job.pod.uid)
        at_us = 0
        while self._due:
            at_us = self._due[0][0]
            events: list[event.Event] = []
            while self._due and self._due[0][0] == at_us:
                _, _, what, uid = heapq.heappop(self._due)
                events += self._event(what, uid)
            while events:
                events = self._step(at_us, events)
        self.course.makespan_s = at_us / 1e6
        self._report()
        return self.course

    def _later(self, at_us: int, what: str, uid: PodUid) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (at_us, self._sequence, what, uid))

    def _event(self, what: str, uid: PodUid) -> list[event.Event]:
        if what == "arrive":
            return [event.PodAdded(self._jobs[uid].pod)]
        if what == "wake":
            return []
        name, _, life = uid.rpartition("#")
        if self._life.get(PodUid(name), 0) != int(life):
            return []
        return [event.PodRemoved(PodUid(name))]

    def _step(self, at_us: int, events: list[event.Event]) -> list[event.Event]:
        """One step; the events that follow from it at once."""
        began = time.perf_counter()
        said = self.engine.step(at_us, events)
        took = time.perf_counter() - began
        self.course.decision_s += took
        self.course.slowest_step_s = max(self.course.slowest_step_s, took)
        self.course.steps += 1
        follows: list[event.Event] = []
        for one in said:
            match one:
                case Bind(uid):
                    life = self._life[uid] = self._life.get(uid, 0) + 1
                    self._first_start.setdefault(uid, at_us)
                    self._later(at_us + self._jobs[uid].runs_us, "end", PodUid(f"{uid}#{life}"))
                case Evict(uid):
                    self._life[uid] = self._life.get(uid, 0) + 1
                    self._waits(self._jobs[uid].kind).evictions += 1
                    follows += [event.PodRemoved(uid), event.PodAdded(self._jobs[uid].pod)]
                case Learn():
                    follows.append(self.engine.study())
                case RequeueAfter(due_us):
                    self._later(max(due_us, at_us + 1), "wake", PodUid(""))
                case Rejected():
                    raise AssertionError(one.problem)
        return follows

    def _waits(self, kind: str) -> Waits:
        return self.course.waits.setdefault(kind, Waits())

    def _report(self) -> None:
        for uid, job in self._jobs.items():
            waits = self._waits(job.kind)
            waits.jobs += 1
            waits.waited_us += self._first_start[uid] - job.pod.created_at_us
