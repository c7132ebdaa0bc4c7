"""The plain picture: queues, nodes, jobs and pods as they are at one moment, in frozen structs.

Only whole GPUs are counted. A pod runs, waits for a place that is promised to it, or waits. All that follows
from a picture is worked out anew by the other modules of this folder; nothing is kept in sums from one
picture to the next.
"""

from collections import Counter
from functools import cached_property

import msgspec

from gpufleet.model.queue import Queue

MILLI = 1000
"""Quotas of GPUs are written in thousandths."""


class Machine(msgspec.Struct, frozen=True):
    """A node with so many GPUs of one model, of which strangers hold ``held``."""

    name: str
    gpus: int
    model: str = "A100"
    rack: str = ""
    held: int = 0


class Job(msgspec.Struct, frozen=True):
    """Work of one pod, or a gang of pods that are alike, of which ``minimum`` run or none.

    Each pod needs ``gpus`` GPUs, of ``model`` if that is given. A job that came earlier has a smaller
    ``order``. A gang ``in_rack`` runs in one rack.
    """

    name: str
    queue: str
    gpus: int = 1
    priority: int = 0
    created_us: int = 0
    order: int = 0
    minimum: int = 1
    is_gang: bool = False
    preemptible: bool = True
    model: str = ""
    in_rack: bool = False


class Run(msgspec.Struct, frozen=True):
    """Where a pod runs, and since when."""

    node: str
    since_us: int


class Picture(msgspec.Struct, frozen=True, dict=True):
    """Everything at one moment.

    ``job_by_pod`` has every pod that runs or waits, in the order in which the pods came. ``promised`` has the
    nodes of pods that wait until others have left. ``immune_to`` has the queues whose work may not evict a
    pod, because the pod came to its place at their cost. ``placed_now`` are pods that were placed in this
    very step.
    """

    now_us: int
    queues: dict[str, Queue]
    nodes: tuple[Machine, ...]
    jobs: dict[str, Job]
    job_by_pod: dict[str, str] = {}
    runs: dict[str, Run] = {}
    leaving: frozenset[str] = frozenset()
    promised: dict[str, str] = {}
    immune_to: dict[str, frozenset[str]] = {}
    placed_now: frozenset[str] = frozenset()

    def job_of(self, pod: str) -> Job:
        """The job of a pod."""
        return self.jobs[self.job_by_pod[pod]]

    @cached_property
    def pods_by_job(self) -> dict[str, list[str]]:
        """The pods of each job, in the order in which they came."""
        found: dict[str, list[str]] = {}
        for pod, name in self.job_by_pod.items():
            found.setdefault(name, []).append(pod)
        return found

    @cached_property
    def use_by_queue(self) -> Counter[str]:
        """GPUs in thousandths by queue, of all pods that have a place."""
        found: Counter[str] = Counter()
        for pod in {**self.runs, **self.promised}:
            job = self.job_of(pod)
            found[job.queue] += job.gpus * MILLI
        return found

    @cached_property
    def places_by_job(self) -> dict[str, int]:
        """How many pods of each job run and go on running, or have a place that is promised."""
        return {
            name: sum((pod in self.runs and pod not in self.leaving) + (pod in self.promised) for pod in pods)
            for name, pods in self.pods_by_job.items()
        }

    @cached_property
    def free_by_node(self) -> dict[str, int]:
        """Free GPUs by node; what is promised is not free."""
        free = {node.name: node.gpus - node.held for node in self.nodes}
        for pod, run in self.runs.items():
            free[run.node] -= self.job_of(pod).gpus
        for pod, node in self.promised.items():
            free[node] -= self.job_of(pod).gpus
        return free

    def pods_of(self, job: Job) -> list[str]:
        """The pods of a job, in the order in which they came."""
        return self.pods_by_job.get(job.name, [])

    def running(self, job: Job) -> list[str]:
        """Its pods that run and go on running."""
        return [pod for pod in self.pods_of(job) if pod in self.runs and pod not in self.leaving]

    def waiting(self, job: Job) -> list[str]:
        """Its pods that have no place."""
        return [pod for pod in self.pods_of(job) if pod not in self.runs and pod not in self.promised]

    def has_place(self, job: Job) -> int:
        """How many of its pods run and go on running, or have a place that is promised."""
        return self.places_by_job.get(job.name, 0)

    def missing(self, job: Job) -> int:
        """How many of its pods must start together so that it runs; 0 if it has its minimum."""
        return max(0, job.minimum - self.has_place(job))

    @property
    def is_clean(self) -> bool:
        """True if no pod leaves and no place is promised."""
        return not self.leaving and not self.promised

    def waiting_jobs(self) -> list[Job]:
        """Jobs that lack their minimum and have all the pods for it."""
        return [
            job
            for job in self.jobs.values()
            if self.missing(job) and len(self.waiting(job)) >= self.missing(job)
        ]

    def growing_jobs(self) -> list[Job]:
        """Jobs that have their minimum, and pods beyond it that wait."""
        return [job for job in self.jobs.values() if self.waiting(job) and not self.missing(job)]
