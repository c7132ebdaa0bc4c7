"""The trace in its own time: tasks arrive when they were created, run for as long as they ran, and leave; a
task that finds no room waits until some is freed. ``virtual_time.player`` goes from moment to moment.

Moments with several events are one step of the engine, in which what leaves comes before what arrives. A task
that was withdrawn before it started in the record leaves at that moment, whether it runs by then or waits;
one of which neither a duration nor an end is known stays. A task that is evicted for one of higher
priority waits again as a new pod, as under a controller, and runs from its beginning. Waits, queue length and
utilisation are kept as they change and summed up at the end.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gpufleet.engine.event import Event, GangSet, PodAdded, PodRemoved
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict
from gpufleet.model.identifiers import PodUid
from gpufleet.replay.cost_meter import CostMeter
from gpufleet.replay.csv_export import Placement
from gpufleet.replay.held_time import HeldTime
from gpufleet.replay.measured_engine import MeasuredEngine
from gpufleet.replay.results import TASK_CLASSES, Timeline, Waits
from gpufleet.replay.saturate import placement_of, pod_of
from gpufleet.replay.tally import ITS_GANG, cause
from gpufleet.replay.task_class import task_class
from gpufleet.replay.trace import Trace
from gpufleet.replay.trace_tasks import TaskRecord
from gpufleet.virtual_time.player import Player

SERIES_POINTS = 500
"""More than a chart has pixels for lines side by side; keeps the result small."""

# The engine counts microseconds, the report seconds.
MICROSECONDS = 1_000_000
WITHDRAWN = "withdrawn"
FIRST_ARRIVAL = 1
"""The turn of the first arrival. What leaves has turn 0, so it makes room for what arrives at that moment."""


class StepSeries:
    """A quantity that jumps: its mean over equal intervals of time."""

    def __init__(self) -> None:
        self._times_us: list[int] = [0]
        self._values: list[int] = [0]

    @property
    def now(self) -> int:
        """The present value."""
        return self._values[-1]

    def add(self, at_us: int, change: int) -> None:
        """The quantity changes at this moment."""
        if not change:
            return
        if self._times_us[-1] == at_us:
            self._values[-1] += change
        else:
            self._times_us.append(at_us)
            self._values.append(self._values[-1] + change)

    def means(self, start_us: int, end_us: int, points: int) -> list[float]:
        """Time-weighted means over ``points`` equal intervals from start to end."""
        width = (end_us - start_us) / points
        sums = [0.0] * points
        edges = [*self._times_us[1:], end_us]
        for since, until, value in zip(self._times_us, edges, self._values, strict=True):
            since_us, until_us = max(since, start_us), min(until, end_us)
            if until_us <= since_us or not value:
                continue
            first = int((since_us - start_us) / width)
            # The very end of the axis is no interval of its own.
            last = min(points - 1, int((until_us - start_us) / width))
            for point in range(first, last + 1):
                left = max(since_us, start_us + point * width)
                right = min(until_us, start_us + (point + 1) * width)
                sums[point] += value * max(0.0, right - left)
        return [total / width for total in sums]


class TimelineRun:
    """Plays a trace against an engine in virtual time."""

    def __init__(
        self, measured: MeasuredEngine, trace: Trace, gpus: int, meter: CostMeter | None = None
    ) -> None:
        self.measured = measured
        self.trace = trace
        self.gpus = gpus
        self.meter = meter
        self.queue_length = StepSeries()
        self.used_milli = StepSeries()
        self.asked_milli = StepSeries()
        self.wait_us_by_task: dict[str, int] = {}
        self.placements: list[Placement] = []
        self.evictions = 0
        self.held: list[HeldTime] = []
        self._holding: dict[PodUid, tuple[Bind, int]] = {}
        self._withdrawn: set[str] = set()
        self._arrived: set[PodUid] = set()
        self._task_by_uid = {PodUid(task.name): task for task in trace.tasks}
        self._uid_by_name = {task.name: PodUid(task.name) for task in trace.tasks}
        self._waits_since_us: dict[str, int] = {}
        self._waited_us: defaultdict[str, int] = defaultdict(int)
        self._player = Player(measured, self)

    def run(
        self, progress: Callable[[int], None] | None = None, is_enough: Callable[[], bool] | None = None
    ) -> None:
        """Play until nothing arrives and nothing leaves any more, or ``is_enough`` says so after a moment."""
        for turn, task in enumerate(self.trace.tasks_by_creation(), start=FIRST_ARRIVAL):
            self._player.later(task.created_at_us, PodUid(task.name), turn)
        before = 0
        while self._player.go_on():
            if self.meter is not None:
                self.meter.look(self._player.at_us)
            if progress is not None and len(self._arrived) // 1000 > before // 1000:
                before = len(self._arrived)
                progress(before)
            if is_enough is not None and is_enough():
                return
        for task in self.never_started():
            reason = self.why_not_started(task)
            self.placements.append(
                Placement(task.name, None, at_us=self.measured.engine.at_us, reason=reason)
            )

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """Tasks arrive for which something is due the first time, and leave the second time."""
        at_us = self._player.at_us
        # Before the first of their members, which would wait for a gang that is not described.
        events: list[Event] = [] if self._arrived else [GangSet(gang) for gang in self.trace.gangs]
        for uid in uids:
            if uid not in self._arrived:
                events.append(self._arrive(uid, at_us))
            elif uid in self._task_by_uid:
                events.append(self._leave(uid, at_us))
        return events

    def _arrive(self, uid: PodUid, at_us: int) -> Event:
        task = self._task_by_uid[uid]
        self._arrived.add(uid)
        self._wait(task, at_us)
        if task.withdrawn_at_us is not None:
            self._player.later(task.withdrawn_at_us, uid)
        return PodAdded(pod_of(task))

    def _wait(self, task: TaskRecord, at_us: int) -> None:
        self.queue_length.add(at_us, 1)
        self.asked_milli.add(at_us, task.shape.gpu.total_milli)
        self._waits_since_us[task.name] = at_us

    def _leave(self, uid: PodUid, at_us: int) -> Event:
        task = self._task_by_uid.pop(uid)
        self.asked_milli.add(at_us, -task.shape.gpu.total_milli)
        if task.name in self.wait_us_by_task:
            self.used_milli.add(at_us, -task.shape.gpu.total_milli)
            self._ended(uid, task, at_us)
        else:
            self.queue_length.add(at_us, -1)
            self._withdrawn.add(task.name)
        return PodRemoved(uid)

    def started(self, bind: Bind) -> Iterable[Event]:
        """A task starts. The bind is not confirmed: the engine counts a place as taken once it gave it."""
        task, at_us = self._task_by_uid[bind.uid], self._player.at_us
        self.queue_length.add(at_us, -1)
        self.used_milli.add(at_us, task.shape.gpu.total_milli)
        self._waited_us[task.name] += at_us - self._waits_since_us[task.name]
        self.wait_us_by_task[task.name] = self._waited_us[task.name]
        self.placements.append(placement_of(task, bind, at_us))
        self._holding[bind.uid] = bind, at_us
        if task.duration_us is not None:
            self._player.later(at_us + task.duration_us, bind.uid)
        return ()

    def evicted(self, evict: Evict) -> Iterable[Event]:
        """A task makes room for one of higher priority and waits again."""
        task, at_us = self._task_by_uid.pop(evict.uid), self._player.at_us
        self.evictions += 1
        self._ended(evict.uid, task, at_us)
        self.used_milli.add(at_us, -task.shape.gpu.total_milli)
        self.asked_milli.add(at_us, -task.shape.gpu.total_milli)
        del self.wait_us_by_task[task.name]
        self._wait(task, at_us)
        again = self._next_uid(task)
        self._task_by_uid[again] = task
        self._uid_by_name[task.name] = again
        self._arrived.add(again)
        if task.withdrawn_at_us is not None:
            self._player.later(task.withdrawn_at_us, again)
        pod = msgspec.structs.replace(pod_of(task), uid=again, created_at_us=at_us)
        return PodRemoved(evict.uid), PodAdded(pod)

    def _ended(self, uid: PodUid, task: TaskRecord, at_us: int | None) -> None:
        bind, from_us = self._holding.pop(uid)
        self.held.append(HeldTime(uid, task, bind.node, bind.devices, from_us, at_us))

    def all_held(self) -> list[HeldTime]:
        """Every run of every task, those that go on too, in the order of their begins."""
        for uid in list(self._holding):
            self._ended(uid, self._task_by_uid[uid], None)
        return sorted(self.held, key=lambda one: (one.from_us, one.uid))

    def _next_uid(self, task: TaskRecord) -> PodUid:
        """A name that no task has and no pod had."""
        numbered = (PodUid(f"{task.name}~{number}") for number in itertools.count(1))
        return next(uid for uid in numbered if uid not in self._arrived and uid not in self._uid_by_name)

    def other_instruction(self, said: AnyInstruction) -> None:
        """Why a task waits is asked at the end."""

    def never_started(self) -> list[TaskRecord]:
        """Tasks that waited to their withdrawal or to the end, also those that waited again then."""
        return [task for task in self.trace.tasks if task.name not in self.wait_us_by_task]

    def waited_us(self, name: str) -> int:
        """How long a task that arrived has waited by now, over all of its waits."""
        found = self.wait_us_by_task.get(name)
        if found is not None:
            return found
        return self._waited_us[name] + self._player.at_us - self._waits_since_us[name]

    def why_not_started(self, task: TaskRecord) -> str:
        """What such a task lacked: a cause as of now, or time."""
        if task.name in self._withdrawn:
            return WITHDRAWN
        verdict = self.measured.engine.explain(self._uid_by_name[task.name])
        return ITS_GANG if verdict is None else cause(verdict)

    def result(self) -> Timeline:
        """Waits and series; the time axis runs from the first arrival to the last event."""
        start_us = min(task.created_at_us for task in self.trace.tasks)
        # The time axis of a trace with a single moment has a length, too.
        end_us = max(self.measured.engine.at_us, start_us + 1)
        points = min(SERIES_POINTS, max(1, (end_us - start_us) // MICROSECONDS))
        width_s = (end_us - start_us) / points / MICROSECONDS
        used = self.used_milli.means(start_us, end_us, points)
        allocated = [100 * milli / (1000 * self.gpus) if self.gpus else 0.0 for milli in used]
        return Timeline(
            waits_by_class=self._waits(),
            time_s=[round(start_us / MICROSECONDS + (point + 0.5) * width_s, 3) for point in range(points)],
            queue_length=[round(length, 3) for length in self.queue_length.means(start_us, end_us, points)],
            gpu_alloc_pct=[round(pct, 4) for pct in allocated],
            mean_gpu_alloc_pct=round(sum(allocated) / points, 4),
            makespan_s=(end_us - start_us) / MICROSECONDS,
            evictions=self.evictions,
            cost=None if self.meter is None else self.meter.cost(start_us, end_us, points),
        )

    def _waits(self) -> dict[str, Waits]:
        by_class: defaultdict[str, list[float]] = defaultdict(list)
        never: defaultdict[str, int] = defaultdict(int)
        for task in self.trace.tasks:
            wait_us = self.wait_us_by_task.get(task.name)
            for name in ("all", task_class(task.shape.gpu)):
                if wait_us is None:
                    never[name] += 1
                else:
                    by_class[name].append(wait_us / MICROSECONDS)
        return {name: waits_of(sorted(by_class[name]), never[name]) for name in ("all", *TASK_CLASSES)}


def waits_of(waits_s: list[float], never_started: int) -> Waits:
    """The figures of one class from its sorted waits; None where nothing started."""
    if not waits_s:
        return Waits(0, never_started, None, None, None, None, None)
    return Waits(
        started=len(waits_s),
        never_started=never_started,
        mean_s=round(math.fsum(waits_s) / len(waits_s), 6),
        p50_s=nearest_rank(waits_s, 50),
        p90_s=nearest_rank(waits_s, 90),
        p99_s=nearest_rank(waits_s, 99),
        max_s=waits_s[-1],
    )


def nearest_rank(ascending: list[float], percent: int) -> float:
    """The percentile by nearest rank: the smallest value that so many percent do not exceed."""
    return ascending[max(0, -(-percent * len(ascending) // 100) - 1)]
