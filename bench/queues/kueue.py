"""Kueue's performance generators (test/performance/scheduler/configs), in virtual time.

Cohorts of queues with 20 cores each of their own, which may borrow 100; three classes of work arrive in
each queue side by side. Kueue runs them against an API server in real time, without nodes: so here
one node has room for all, and only quota decides.
"""

import msgspec

from bench.figures import Figure, figure
from bench.progress import Progress, say
from bench.queues.queue_alone import Piece, evictions
from bench.queues.virtual_time import Course, Job, Run
from gpufleet.engine import event
from gpufleet.model.identifiers import NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import CPU, PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.resources import Resources
from gpufleet.model.shape import Shape

NOMINAL_MILLI = 20_000
BORROWING_MILLI = 100_000
AMPLE_MILLI = 90_000_000


class Class(msgspec.Struct, frozen=True):
    """A class of work: how much of it a queue gets, how often, for how long, and how large it is."""

    name: str
    count: int
    every_ms: int
    runs_ms: int
    priority: int
    cores: int


class Load(msgspec.Struct, frozen=True):
    """A whole configuration, with the figures that Kueue reached on it."""

    name: str
    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    makespan_s: float
    waits_s: dict[str, float]
    decision_s: float
    slowest_slice_ms: float | None = None


BASELINE = Load(
    "baseline",
    5,
    6,
    (
        Class("small", 350, 100, 200, 50, 1),
        Class("medium", 100, 500, 500, 100, 5),
        Class("large", 50, 1200, 1000, 200, 20),
    ),
    351.0,
    {"large": 16.5, "medium": 76.8, "small": 215.0},
    20.0,
)
LARGE_SCALE = Load(
    "large-scale",
    10,
    100,
    # 50 a queue in the baseline's proportions; the published run does not tell its split.
    (
        Class("small", 35, 100, 200, 50, 1),
        Class("medium", 10, 500, 500, 100, 5),
        Class("large", 5, 1200, 1000, 200, 20),
    ),
    1179.0,
    {"large": 106.0, "medium": 256.0, "small": 700.0},
    10.0,
    500.0,
)


def play(load: Load) -> Course:
    """The whole load, from the first arrival to the last end."""
    work = jobs(load)
    return Run("best-fit", setting(load)).play(work, Progress(f"Kueue {load.name}", len(work)).at)


def figures(load: Load) -> list[Figure]:
    """Makespan and waits against Kueue's, and the engine's own time."""
    work = load.cohorts * load.queues * sum(one.count for one in load.classes)
    say(f"Kueue's {load.name}, {work:,} workloads in virtual time")
    course = play(load)
    title = f"Kueue {load.name}:"
    found = [
        figure(f"{title} makespan (target: Kueue's)", course.makespan_s, "s", "lower", load.makespan_s),
        figure(f"{title} deciding", course.decision_s, "s", "lower", load.decision_s),
        figure(f"{title} slowest slice", 1000 * course.slowest_slice_s, "ms", "lower", load.slowest_slice_ms),
        figure(f"{title} slowest step, all of its slices", 1000 * course.slowest_step_s, "ms", "lower"),
    ]
    evicted, alone = sum(waits.evictions for waits in course.waits.values()), evictions_alone(load)
    found.append(figure(f"{title} evictions (target: each queue alone)", evicted, "", "lower", alone))
    for kind, published_s in load.waits_s.items():
        waits = course.waits[kind]
        name = f"{title} mean wait, {kind} (target: Kueue's)"
        found.append(figure(name, waits.mean_s, "s", "lower", published_s))
        found.append(figure(f"{title} evictions, {kind}", waits.evictions, "", "lower"))
    return found


def evictions_alone(load: Load) -> int:
    """How often work is evicted by the rule of priority alone, each queue with its own cores."""
    work = (
        Piece(one.priority, (number + 1) * one.every_ms * 1000, one.runs_ms * 1000, one.cores)
        for one in load.classes
        for number in range(one.count)
    )
    return load.cohorts * load.queues * evictions(work, NOMINAL_MILLI // 1000)


def setting(load: Load) -> list[event.Event]:
    """The queues, and a node on which everything fits."""
    node = Node(NodeName("all"), Resources(AMPLE_MILLI, 1 << 50, 10_000_000))
    events: list[event.Event] = [event.NodeSet(node)]
    preemption = PreemptionPolicy(within_queue=VictimScope.LOWER_PRIORITY, reclaim=VictimScope.ANY)
    for cohort in range(load.cohorts):
        root = QueueName(f"cohort-{cohort}")
        events.append(event.QueueSet(Queue(root)))
        for number in range(load.queues):
            quota = Quota(CPU, NOMINAL_MILLI, BORROWING_MILLI)
            name = QueueName(f"cq-{number}-{root}")
            events.append(event.QueueSet(Queue(name, parent=root, quotas=(quota,), preemption=preemption)))
    return events


def jobs(load: Load) -> list[Job]:
    """Every class of every queue arrives by itself, one piece of work after each interval."""
    found: list[Job] = []
    for cohort in range(load.cohorts):
        for number in range(load.queues):
            queue = QueueName(f"cq-{number}-cohort-{cohort}")
            for one in load.classes:
                for count in range(one.count):
                    uid = PodUid(f"{queue}-{one.name}-{count}")
                    shape = Shape(Resources(one.cores * 1000))
                    created_at_us = (count + 1) * one.every_ms * 1000
                    pod = Pod(uid, shape, uid, queue, one.priority, created_at_us=created_at_us)
                    found.append(Job(one.name, pod, one.runs_ms * 1000))
    return found
