"""The production trace in its own time, with teams: what queues are worth against FIFO and best-effort.

The trace names no users, but tasks that ask for exactly the same are runs of one application: its 91
applications are dealt to teams in turn, in the order in which they first appear, which makes some teams large
and some small. A few of its nodes are less than it needs in its busy weeks. Each team owns as
many GPUs as a node has and may use what the others leave; the same engine decides for all.

*queues* is that, *queues, run times learned* the same with ``learnRunTimes``, *queues, nothing reserved*
without reservations, *queues, nobody evicted* without taking back, and one way has neither. With *work lost
first* the work is taken back that loses the least (``victimOrder``), and not that of the team that has
borrowed the most. *FIFO* has one strict queue, *best-effort* none at all. Waits go from a task's arrival to
the start from which it ran to its end, so that what an eviction cost is in them.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from bench.figures import Figure, figure
from bench.progress import Progress, say
from bench.queues.virtual_time import Course, Job, Run, mean_s, percentile_s
from gpufleet.engine import event
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import (
    GPU,
    RESERVE_AFTER_US,
    PreemptionPolicy,
    Queue,
    Quota,
    VictimOrder,
    VictimScope,
)
from gpufleet.model.resources import Resources
from gpufleet.model.shape import Shape
from gpufleet.replay.data_files import shipped_node_list, shipped_task_list
from gpufleet.replay.task_class import task_class
from gpufleet.replay.trace import read_trace

TEAMS = 6
MODEL = "G2"
NODES = 6
POLICY = "gpufleet"
PERCENTS = (50, 95, 99)
WAIT_BAR_S = 45 * 60
"""The mean wait with queues, reservations included."""
DECIDING_BAR_S = 8
LEARNED = "queues, run times learned"
WORK_LOST_LEARNED = "queues, work lost first, run times learned"
WORK_LOST_UNRESERVED = "queues, work lost first, nothing reserved"
JUDGED = (LEARNED, WORK_LOST_LEARNED)
"""The ways that the bars are for."""
CLASSES = ("all", "cpu", "share", "1", "2", "4", "8")
LARGEST = CLASSES[-1]
WITHOUT_RESERVATIONS = {WORK_LOST_LEARNED: WORK_LOST_UNRESERVED}
"""Reservations are to cost the largest class nothing: its bar is its wait in the same way without them."""
WORK_LOST = VictimOrder.WORK_LOST_FIRST
FLEET = QueueName("fleet")
LINE = QueueName("line")


class Trace(msgspec.Struct, frozen=True):
    """A small part of the fleet, and all tasks that ran in the record and fit on one of these nodes."""

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    team: dict[PodUid, QueueName]


class Way(msgspec.Struct, frozen=True):
    """A way to share the fleet: its queues, and whether work is told which is its own."""

    name: str
    queues: tuple[Queue, ...]
    line: QueueName | None = None


def trace(tasks: int | None = None) -> Trace:
    """The trace; of its tasks only so many if told."""
    read = read_trace(shipped_node_list(), shipped_task_list())
    nodes = [node for node in read.nodes if any(device.model == MODEL for device in node.devices)][:NODES]
    most = nodes[0].allocatable
    ran = [task for task in read.tasks_by_creation() if task.duration_us and fits(task.shape.resources, most)]
    teams: dict[Shape, QueueName] = {}
    jobs = []
    for task in ran[-tasks:] if tasks else ran:
        team = teams.setdefault(task.shape, QueueName(f"team-{len(teams) % TEAMS + 1}"))
        pod = Pod(PodUid(task.name), task.shape, task.name, team, created_at_us=task.created_at_us)
        jobs.append(Job(task_class(task.shape.gpu), pod, task.duration_us or 0))
    return Trace(tuple(nodes), tuple(jobs), {job.pod.uid: job.pod.queue for job in jobs})


def fits(needs: Resources, has: Resources) -> bool:
    """Whether cores and memory are enough."""
    return needs.cpu_milli <= has.cpu_milli and needs.memory_bytes <= has.memory_bytes


def ways(gpus: int) -> tuple[Way, ...]:
    """The ways to share so many GPUs."""
    return (
        Way("queues", teams_of(gpus, VictimScope.ANY)),
        Way(LEARNED, teams_of(gpus, VictimScope.ANY, learn=True)),
        Way("queues, nothing reserved", teams_of(gpus, VictimScope.ANY, reserve=False)),
        Way(WORK_LOST_UNRESERVED, teams_of(gpus, VictimScope.ANY, WORK_LOST, reserve=False)),
        Way(WORK_LOST_LEARNED, teams_of(gpus, VictimScope.ANY, WORK_LOST, learn=True)),
        Way("queues, nobody evicted", teams_of(gpus, VictimScope.NEVER)),
        Way("queues, nothing reserved, nobody evicted", teams_of(gpus, VictimScope.NEVER, reserve=False)),
        Way("FIFO", (Queue(LINE, strict=True),), LINE),
        Way("best-effort", (), LINE),
    )


def teams_of(
    gpus: int,
    reclaim: VictimScope,
    order: VictimOrder = VictimOrder.SHARE_FIRST,
    *,
    reserve: bool = True,
    learn: bool = False,
) -> tuple[Queue, ...]:
    """A queue for each team: equal parts, and all may borrow."""
    after_us = RESERVE_AFTER_US if reserve else None
    policy = PreemptionPolicy(within_queue=VictimScope.NEVER, reclaim=reclaim, victim_order=order)
    owned = (Quota(GPU, gpus * 1000 // TEAMS),)
    teams = [
        Queue(
            QueueName(f"team-{number + 1}"),
            parent=FLEET,
            quotas=owned,
            preemption=policy,
            reserve_after_us=after_us,
            learn_run_times=learn,
        )
        for number in range(TEAMS)
    ]
    return (Queue(FLEET), *teams)


def play(way: Way, read: Trace) -> Course:
    """The whole trace in this way."""
    events: list[event.Event] = [event.NodeSet(node) for node in read.nodes]
    events += [event.QueueSet(queue) for queue in way.queues]
    jobs = list(read.jobs)
    if way.line is not None:
        jobs = [
            msgspec.structs.replace(job, pod=msgspec.structs.replace(job.pod, queue=way.line)) for job in jobs
        ]
    progress = Progress(f"openb, {way.name}", len(jobs))
    return Run(POLICY, events, confirmed=True).play(jobs, progress.at)


def jain(shares: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has all; 1 where nobody has anything."""
    squares = len(shares) * math.fsum(share * share for share in shares)
    return math.fsum(shares) ** 2 / squares if squares else 1.0


class Moment(NamedTuple):
    """A length of time in which nothing changed: how many teams waited, how many of these with less than an
    equal part of the fleet, and Jain's index of the dominant shares of those that waited.
    """

    lasted_s: float
    waiting: int
    below: int
    jain_index: float


def fairness(course: Course, read: Trace) -> list[Moment]:
    """The whole course, moment by moment."""
    held: defaultdict[QueueName, Held] = defaultdict(Held)
    shapes = {job.pod.uid: job.pod.shape for job in read.jobs}
    gpus = sum(len(node.devices) for node in read.nodes)
    host = Resources(
        sum(node.allocatable.cpu_milli for node in read.nodes),
        sum(node.allocatable.memory_bytes for node in read.nodes),
    )
    found: list[Moment] = []
    since_us, shares = 0, list[float]()
    for at_us, changes in itertools.groupby(course.changes, key=lambda change: change.at_us):
        below = sum(share < 1 / TEAMS for share in shares)
        found.append(Moment((at_us - since_us) / 1e6, len(shares), below, jain(shares)))
        for change in changes:
            held[read.team[change.uid]].take(change.what, shapes[change.uid])
        since_us, shares = at_us, [one.dominant(gpus, host) for one in held.values() if one.waiting]
    return found


class Held:
    """What a team holds at a moment, and how many of its tasks wait."""

    def __init__(self) -> None:
        self.waiting = 0
        self.gpu_milli = 0
        self.cpu_milli = 0
        self.memory_bytes = 0

    def take(self, what: str, shape: Shape) -> None:
        """A task of the team changes."""
        if what == "waits":
            self.waiting += 1
            return
        sign = 1 if what == "runs" else -1
        self.waiting -= what == "runs"
        self.gpu_milli += sign * shape.gpu.total_milli
        self.cpu_milli += sign * shape.resources.cpu_milli
        self.memory_bytes += sign * shape.resources.memory_bytes

    def dominant(self, gpus: int, host: Resources) -> float:
        """The largest part that it holds of the fleet's GPUs, cores or memory."""
        return max(
            self.gpu_milli / (1000 * gpus),
            self.cpu_milli / host.cpu_milli,
            self.memory_bytes / host.memory_bytes,
        )


def figures(tasks: int | None = None) -> list[Figure]:
    """Waits by class, fairness and what evictions cost, of all ways."""
    say("the trace with teams, in its own time")
    read = trace(tasks)
    gpus = sum(len(node.devices) for node in read.nodes)
    found: list[Figure] = []
    largest_s: dict[str, float] = {}
    for way in ways(gpus):
        course = play(way, read)
        bars_s = bars_of(way.name, largest_s)
        found += of_way(way.name, course, read, bars_s)
        if LARGEST in course.waits:
            largest_s[way.name] = mean_s(course.waits[LARGEST].last_us)
    return found


def bars_of(way: str, largest_s: Mapping[str, float]) -> dict[str, float]:
    """The bars on the mean wait in a way by class; ``largest_s`` has that of the largest class by way."""
    bars_s: dict[str, float] = {}
    if way in JUDGED:
        bars_s["all"] = WAIT_BAR_S
    if WITHOUT_RESERVATIONS.get(way, "") in largest_s:
        bars_s[LARGEST] = largest_s[WITHOUT_RESERVATIONS[way]]
    return bars_s


def of_way(name: str, course: Course, read: Trace, bars_s: Mapping[str, float]) -> list[Figure]:
    """The figures of one way; ``bars_s`` are for mean waits by class."""
    found: list[Figure] = []
    for kind in CLASSES:
        taken = [waits for of, waits in course.waits.items() if kind in ("all", of)]
        waits_us = [wait_us for waits in taken for wait_us in waits.last_us]
        if waits_us:
            title = f"openb, {name}: wait, {kind}"
            found.append(figure(f"{title}, mean", mean_s(waits_us), "s", "lower", bars_s.get(kind)))
            found += [
                figure(f"{title}, p{percent}", percentile_s(waits_us, percent), "s", "lower")
                for percent in PERCENTS
            ]
    moments = fairness(course, read)
    together = [one for one in moments if one.waiting > 1]
    lasted_s = math.fsum(one.lasted_s for one in together)
    below_s = math.fsum(one.lasted_s * one.below for one in moments)
    title = f"openb, {name}"
    if lasted_s:
        mean = math.fsum(one.lasted_s * one.jain_index for one in together) / lasted_s
        found.append(figure(f"{title}: Jain's index of teams that wait, mean", mean, "", "higher"))
    deciding_s = DECIDING_BAR_S if name in JUDGED else None
    evictions = sum(waits.evictions for waits in course.waits.values())
    return [
        *found,
        figure(f"{title}: two teams or more waited for", lasted_s / 3600, "h", "lower"),
        figure(f"{title}: teams waited with less than their part", below_s / 3600, "team h", "lower"),
        figure(f"{title}: evictions", evictions, "", "lower"),
        figure(f"{title}: GPU time lost to evictions", course.lost_milli_us / 3.6e12, "GPU h", "lower"),
        figure(f"{title}: makespan", course.makespan_s / 86_400, "days", "lower"),
        figure(f"{title}: deciding", course.decision_s, "s", "lower", deciding_s),
    ]
