"""A short way to write a fleet with queues and running work down, and to ask what one more job does there.

- nodes: ``n=4 m=2/H100@x h=4-2``: four GPUs; two of that model in rack x; four, of which strangers hold two;
- queues: ``a=2 d/x=1(w=2,p=1)``: what each owns in GPUs; d/x is below d, all others below the root ``all``;
- work: ``NAME QUEUE AMOUNT [words]``. ``4*1`` is four pods of one GPU, ``4x1`` a gang of four, with ``.5``
  each has half a GPU. Words: ``min2``, ``p1`` (priority), ``@n,m`` (nodes of its pods in turn), ``/H100``,
  ``rack``, ``never`` (is never evicted), ``polite`` (evicts no pod), ``young`` (runs since a second),
  ``late`` (came after all others), ``mig`` (instances instead of GPUs).
"""

import re
from collections import Counter
from typing import NamedTuple

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import Bind, Evict
from gpufleet.model.device import Serves
from gpufleet.model.identifiers import NodeName, QueueName, QuotaResource
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import SECOND_US, Story, gang, node, pod, shape

MIG = "nvidia.com/mig-1g.10gb"
NOW_US = 100_000 * SECOND_US
SCOPES = {
    "any": VictimScope.ANY,
    "lower": VictimScope.LOWER_PRIORITY,
    "newer": VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY,
    "never": VictimScope.NEVER,
}


class Case(NamedTuple):
    """``asks`` is the work that comes last; ``comes`` is what comes of it."""

    why: str
    nodes: str
    queues: str
    runs: list[str]
    asks: str
    comes: str


class Job(msgspec.Struct, frozen=True):
    """Work that runs, or that asks for a place."""

    name: str
    queue: str
    pods: tuple[Pod, ...]
    least: int | None = None
    nodes: tuple[str, ...] = ()
    in_rack: bool = False
    since_us: int = 0


def outcome(nodes: str, queues: str, runs: list[str], asks: str) -> str:
    """What comes of it: ``starts``, ``waits``, or how many pods of which work have to end: ``b=2 c=1``."""
    told = Story("best-fit")
    told.at_us = NOW_US
    told.levels("rack")
    told.queues(*queues_of(queues))
    machines = [node_of(text) for text in nodes.split()]
    told.nodes(*machines)
    jobs = [job_of(text, number) for number, text in enumerate(runs)]
    run(told, machines, jobs)
    last = job_of(asks, len(runs))
    describe(told, last)
    said = told.arrive(*last.pods)
    work = {one.uid: job.name for job in jobs for one in job.pods}
    victims = Counter(work[evict.uid] for evict in said if isinstance(evict, Evict))
    if victims:
        return " ".join(f"{name}={count}" for name, count in sorted(victims.items()))
    return "starts" if any(isinstance(bind, Bind) for bind in said) else "waits"


def run(told: Story, machines: list[Node], jobs: list[Job]) -> None:
    """These jobs run, each pod on its node or the first, on the first devices with enough left."""
    free = {
        str(machine.name): {one.id: 1000 for one in machine.devices if one.serves is not Serves.NOTHING}
        for machine in machines
    }
    for job in jobs:
        describe(told, job)
        names = job.nodes or (str(machines[0].name),)
        for number, one in enumerate(job.pods):
            name, gpu = names[number % len(names)], one.shape.gpu
            ids = tuple(device for device, left in free[name].items() if left >= gpu.gpu_milli)[: gpu.count]
            assert len(ids) == gpu.count, f"{job.name} does not fit on {name}"
            for device in ids:
                free[name][device] -= gpu.gpu_milli
            told.happen(event.PodBound(one, NodeName(name), ids, job.since_us))


def describe(told: Story, job: Job) -> None:
    """Tell of a job's gang, if it is one."""
    if job.least is not None:
        level = "rack" if job.in_rack else None
        first = job.pods[0]
        made = gang(job.name, job.least, queue=job.queue, priority=first.priority, level=level)
        told.gangs(msgspec.structs.replace(made, created_at_us=first.created_at_us))


def node_of(text: str) -> Node:
    """A node by its text."""
    found = re.fullmatch(r"(\w+)=(\d+)(?:-(\d+))?(?:/(\w+))?(?:@(\w+))?(?:\+mig(\d+))?", text)
    assert found, text
    name, gpus, held, model, rack, instances = found.groups()
    labels = {} if rack is None else {"rack": rack}
    other = () if instances is None else ((MIG, int(instances)),)
    made = node(name, int(gpus), model=model or "A100", cpu_milli=1_000_000, labels=labels, other=other)
    kept = int(gpus) - int(held or 0)
    devices = (
        one if number < kept else msgspec.structs.replace(one, serves=Serves.NOTHING)
        for number, one in enumerate(made.devices)
    )
    return msgspec.structs.replace(made, devices=tuple(devices))


def queues_of(text: str) -> list[Queue]:
    """The root ``all``, departments, and the queues of the text."""
    own = [re.fullmatch(r"([\w/]+)=([\d.]+)(?:\((.*)\))?", one) for one in text.split()]
    found: dict[str, Queue] = {"all": Queue(QueueName("all"), quotas=(Quota(GPU), Quota(QuotaResource(MIG))))}
    for one in own:
        assert one, text
        path, amount, words = one.groups()
        above, _, name = path.rpartition("/")
        if above and above not in found:
            found[above] = Queue(QueueName(above), parent=QueueName("all"), quotas=(Quota(GPU),))
        found[name] = queue_of(name, above or "all", int(float(amount) * 1000), words or "")
    return list(found.values())


def queue_of(name: str, above: str, milli: int, words: str) -> Queue:
    """A queue with what its words say."""
    said = dict(word.split("=") for word in words.split(",") if word)
    limits = (int(said[key]) * 1000 if key in said else None for key in ("limit", "lend", "hard"))
    times = {key: int(said[key]) * SECOND_US for key in ("pafter", "rafter", "eafter") if key in said}
    policy = PreemptionPolicy(
        SCOPES[said.get("in", "lower")],
        SCOPES[said.get("reclaim", "any")],
        SCOPES[said.get("borrow", "never")],
        None,
        times.get("pafter", 0),
        times.get("rafter", 0),
        times.get("eafter"),
    )
    return Queue(
        QueueName(name),
        parent=None if name == "all" else QueueName(above),
        priority=int(said.get("p", 0)),
        weight_milli=int(said.get("w", 1)) * 1000,
        quotas=(Quota(GPU, milli, *limits), Quota(QuotaResource(MIG), milli // 1000)),
        preemption=policy,
        reserve_after_us=None,
    )


def job_of(text: str, number: int) -> Job:
    """Work by its text; ``number`` is its place in the order in which work came."""
    name, queue, amount, *words = text.split()
    found = re.fullmatch(r"(\d+)([x*])([\d.]+)", amount)
    assert found, text
    count, kind, size = int(found[1]), found[2], float(found[3])
    said = {word[0]: word[1:] for word in words if word[0] in "p@/" and word != "polite"}
    model = (said["/"],) if "/" in said else ()
    needs = needs_of(size, model, is_mig="mig" in words)
    created_us = NOW_US if "late" in words else (number + 1) * SECOND_US
    pods = tuple(
        pod(
            f"{name}-{place}",
            needs,
            queue=queue,
            priority=int(said.get("p", 0)),
            gang=name if kind == "x" else None,
            created_at_us=created_us,
            preemptible="never" not in words,
            preempts="polite" not in words,
        )
        for place in range(count)
    )
    least = next((int(word[3:]) for word in words if word.startswith("min")), count)
    return Job(
        name,
        queue,
        pods,
        least if kind == "x" else None,
        tuple(said["@"].split(",")) if "@" in said else (),
        "rack" in words,
        NOW_US - SECOND_US if "young" in words else (number + 1) * SECOND_US,
    )


def needs_of(size: float, models: tuple[str, ...], *, is_mig: bool) -> Shape:
    """What a pod asks for: GPUs, a part of one, or instances."""
    if is_mig:
        return shape(other=((MIG, int(size)),), cpu_milli=1)
    if size < 1:
        return shape(1, milli=int(size * 1000), models=models, cpu_milli=1)
    return shape(int(size), models=models, cpu_milli=1)
