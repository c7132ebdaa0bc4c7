"""Work that was seen on a cluster, as a history: pods with their times, whatever told of them.

What was there before anything was seen begins with the history: how long it had waited is not counted. What
is there still at the end has no known end.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DEFAULT_QUEUE, GangName, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.model.shape import Shape
from gpufleet.plan.history.demand import HISTORY, Demand, with_catalogue_names
from gpufleet.replay.trace_tasks import TaskRecord

GENERATION = "~"
"""Stands between a name and its number where a name comes again: no name of Kubernetes has it."""


class SeenPod(msgspec.Struct, frozen=True):
    """A pod as it was seen, in microseconds since 1970. ``started_us`` is None for one that never ran, and
    ``ended_us`` for one that is there still.
    """

    name: str
    shape: Shape
    created_us: int
    started_us: int | None = None
    ended_us: int | None = None
    queue: QueueName = DEFAULT_QUEUE
    priority: int = 0
    gang: GangName | None = None
    run_time_us: int | None = None


class SeenWork(msgspec.Struct, frozen=True):
    """All pods, the least members of each gang, since when anything was seen, and notes for people."""

    pods: tuple[SeenPod, ...]
    least_members: Mapping[GangName, int]
    begin_us: int
    source: str
    notes: tuple[str, ...] = ()


def demand_of(work: SeenWork) -> Demand:
    """The work as tasks, whose times count from the beginning. Raises InputError where no pod has a GPU."""
    pods = [pod for pod in work.pods if pod.ended_us is None or pod.ended_us > work.begin_us]
    if not any(pod.shape.gpu.count for pod in pods):
        raise InputError("tells of no pod with GPUs", field=HISTORY, value=work.source, expected="such pods")
    named = with_catalogue_names()
    taken: Counter[str] = Counter()
    tasks: list[TaskRecord] = []
    for pod in sorted(pods, key=lambda pod: (pod.created_us, pod.name)):
        taken[pod.name] += 1
        # A StatefulSet makes pods of one name again and again.
        name = pod.name if taken[pod.name] == 1 else f"{pod.name}{GENERATION}{taken[pod.name]}"
        tasks.append(_task(pod, name, work.begin_us, named(pod.shape)))
    tasks = _by_generation(tasks)
    gangs = tuple(_gang(name, of_gang, work) for name, of_gang in _by_gang(tasks).items())
    return Demand(tuple(tasks), gangs, source=work.source, notes=work.notes)


def _task(pod: SeenPod, name: str, begin_us: int, shape: Shape) -> TaskRecord:
    duration_us = withdrawn_us = None
    if pod.started_us is None:
        withdrawn_us = pod.ended_us
    elif pod.ended_us is not None:
        duration_us = max(1, pod.ended_us - max(pod.started_us, begin_us))
    elif pod.run_time_us is not None:
        # It says how long it runs, so it ends though that was not seen.
        duration_us = max(1, pod.run_time_us - max(0, begin_us - pod.started_us))
    return TaskRecord(
        name,
        shape,
        max(0, pod.created_us - begin_us),
        duration_us,
        pod.priority,
        pod.queue,
        pod.gang,
        None if withdrawn_us is None else max(0, withdrawn_us - begin_us),
    )


def _by_generation(tasks: Iterable[TaskRecord]) -> list[TaskRecord]:
    """A gang of a name that comes again, once all that had the name were over, is another gang."""
    found: list[TaskRecord] = []
    over_us: dict[GangName, float] = {}
    number = Counter[GangName]()
    for task in tasks:
        if task.gang is None:
            found.append(task)
            continue
        if task.created_at_us >= over_us.get(task.gang, math.inf):
            number[task.gang] += 1
            del over_us[task.gang]
        over_us[task.gang] = max(over_us.get(task.gang, 0), _over_us(task))
        name = f"{task.gang}{GENERATION}{number[task.gang] + 1}" if number[task.gang] else task.gang
        found.append(msgspec.structs.replace(task, gang=GangName(name)))
    return found


def _over_us(task: TaskRecord) -> float:
    """The earliest moment at which a task may have been over."""
    if task.withdrawn_at_us is not None:
        return task.withdrawn_at_us
    return math.inf if task.duration_us is None else task.created_at_us + task.duration_us


def _by_gang(tasks: Iterable[TaskRecord]) -> dict[GangName, list[TaskRecord]]:
    found: dict[GangName, list[TaskRecord]] = {}
    for task in tasks:
        if task.gang is not None:
            found.setdefault(task.gang, []).append(task)
    return found


def _gang(name: GangName, tasks: Sequence[TaskRecord], work: SeenWork) -> Gang:
    # Of a gang that was seen in part no more can be asked for than was seen.
    told = work.least_members.get(GangName(name.partition(GENERATION)[0]), len(tasks))
    least = min(len(tasks), told)
    first = min(tasks, key=lambda task: task.created_at_us)
    return Gang(name, least, first.queue, first.priority, created_at_us=first.created_at_us)
