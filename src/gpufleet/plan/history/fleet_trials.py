"""Replays of the work on fleets: the same engine and the same replay as `gpufleet replay --mode timeline`.

Whether a fleet holds the levels is found out with an end as early as possible: at the first moment at which
too many tasks have waited for too long. What a fleet does is found by a whole replay.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import BY_PRIORITY
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.node import Node
from gpufleet.plan.answer import purchase_of
from gpufleet.plan.history.answer import FleetFound, LevelFound, Series
from gpufleet.plan.history.bought_fleet import Counts, bought, cost_micro
from gpufleet.plan.history.demand import Demand
from gpufleet.plan.history.service_level import WITH_GPUS, ServiceLevel
from gpufleet.plan.instance_types import InstanceType
from gpufleet.replay.arrivals import gpu_capacity_milli, ranked, source_of
from gpufleet.replay.measured_engine import MeasuredEngine
from gpufleet.replay.results import Waits
from gpufleet.replay.task_class import task_class
from gpufleet.replay.timeline import TimelineRun, waits_of
from gpufleet.replay.trace_tasks import TaskRecord
from gpufleet.replay.typical import typical_workload

SEED = 42
"""The default of `gpufleet replay`, so that it finds the same."""

SERIES_POINTS = 300
"""More than a chart has pixels for lines side by side."""

US_PER_S = 10**6


class FleetTrials:
    """Fleets of ``there`` and so many nodes of each type, tried on the work."""

    def __init__(
        self,
        demand: Demand,
        there: Sequence[Node],
        types: Sequence[InstanceType],
        levels: Sequence[ServiceLevel],
        policy: str,
    ) -> None:
        self.types = types
        self.replays = 0
        self._demand = demand
        self._there = there
        self._levels = levels
        self._policy = find_policy(policy)
        self._workload = typical_workload(demand.tasks)

    def holds(self, counts: Counts) -> bool:
        """Whether a fleet holds all levels and starts everything that was not withdrawn."""
        play = self._play(counts)
        late = [_LateTasks(play, level, self._demand.counting) for level in self._levels]
        play.run(is_enough=lambda: any(one.are_too_many() for one in late))
        if any(one.are_too_many() for one in late) or _never_started(play):
            return False
        return all(_level_found(play, level, self._demand.counting).holds for level in self._levels)

    def found(self, counts: Counts) -> tuple[FleetFound, Series]:
        """What a fleet does, by a whole replay."""
        play = self._play(counts)
        play.run()
        types = zip(self.types, counts, strict=True)
        fleet = FleetFound(
            tuple(purchase_of(one, count) for one, count in types if count),
            play.gpus,
            cost_micro(self.types, counts),
            tuple(_level_found(play, level, self._demand.counting) for level in self._levels),
            *_waits(play, self._demand.counting),
            _never_started(play),
        )
        return fleet, _series(play, self._demand.counts_from_us)

    def nodes(self, counts: Counts) -> list[Node]:
        """The fleet that is there and the nodes that are bought."""
        return [*self._there, *bought(self.types, counts)]

    def _play(self, counts: Counts) -> TimelineRun:
        self.replays += 1
        nodes = ranked(self.nodes(counts), source_of(SEED))
        measured = MeasuredEngine(self._policy, SEED, victims=BY_PRIORITY)
        measured.set_up(nodes, self._workload)
        return TimelineRun(measured, self._demand.on(nodes), gpu_capacity_milli(nodes) // WHOLE_GPU_MILLI)


class _LateTasks:
    """Counts tasks that a level calls late while a replay goes on."""

    def __init__(self, play: TimelineRun, level: ServiceLevel, tasks: Sequence[TaskRecord]) -> None:
        about = [task for task in tasks if level.is_about(task.shape.gpu)]
        self._play = play
        self._within_us = level.within_us
        self._allowed = level.late_allowed(len(about))
        self._late = 0
        self._open = sorted(about, key=lambda task: task.created_at_us, reverse=True)

    def are_too_many(self) -> bool:
        """Whether more are late by now than may be."""
        now_us = self._play.measured.engine.at_us
        while self._open and self._open[-1].created_at_us + self._within_us < now_us:
            # One that waits in time now and is evicted later may still turn late, which the end counts.
            self._late += self._play.waited_us(self._open.pop().name) > self._within_us
        return self._late > self._allowed


def _never_started(play: TimelineRun) -> int:
    """Tasks that were to run and did not; what was withdrawn before it started in the record need not run."""
    return sum(task.withdrawn_at_us is None for task in play.never_started())


def _level_found(play: TimelineRun, level: ServiceLevel, tasks: Sequence[TaskRecord]) -> LevelFound:
    about = [task for task in tasks if level.is_about(task.shape.gpu)]
    waits_us = sorted(wait for task in about if (wait := play.wait_us_by_task.get(task.name)) is not None)
    in_time = sum(wait <= level.within_us for wait in waits_us)
    rank = len(about) - level.late_allowed(len(about))
    wait_s = waits_us[rank - 1] / US_PER_S if 0 < rank <= len(waits_us) else None
    return LevelFound(level, len(about), in_time, wait_s, in_time >= rank)


def _waits(
    play: TimelineRun, tasks: Sequence[TaskRecord]
) -> tuple[dict[str, Waits], dict[str, float | None]]:
    """Waits by class: of those that started, and what 90 % of all wait at most."""
    by_class: defaultdict[str, list[float]] = defaultdict(list)
    counts = Counter[str]()
    for task in tasks:
        wait_us = play.wait_us_by_task.get(task.name)
        for name in [task_class(task.shape.gpu)] + [WITH_GPUS] * bool(task.shape.gpu.count):
            counts[name] += 1
            if wait_us is not None:
                by_class[name].append(wait_us / US_PER_S)
    found = {name: sorted(by_class[name]) for name in sorted(counts)}
    waits = {name: waits_of(one, counts[name] - len(one)) for name, one in found.items()}
    of_all = {name: _reached(one, -(-90 * counts[name] // 100)) for name, one in found.items()}
    return waits, of_all


def _reached(waits_s: list[float], rank: int) -> float | None:
    return waits_s[rank - 1] if rank <= len(waits_s) else None


def _series(play: TimelineRun, from_us: int) -> Series:
    start_us = max(from_us, min(task.created_at_us for task in play.trace.tasks))
    # To the last arrival: after it a replay only runs out.
    end_us = max(start_us + 1, *(task.created_at_us for task in play.trace.tasks))
    points = min(SERIES_POINTS, max(1, (end_us - start_us) // US_PER_S))
    width_s = (end_us - start_us) / points / US_PER_S
    asked = play.asked_milli.means(start_us, end_us, points)
    used = play.used_milli.means(start_us, end_us, points)
    return Series(
        [round((point + 0.5) * width_s, 3) for point in range(points)],
        [round(milli / WHOLE_GPU_MILLI, 3) for milli in asked],
        [round(milli / WHOLE_GPU_MILLI, 3) for milli in used],
    )
