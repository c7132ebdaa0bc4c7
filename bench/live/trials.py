"""The trials: a burst that waits for its scheduler, steady arrivals, one large gang, a full cluster."""

import statistics
import time
from collections.abc import Callable, Sequence

import msgspec

from bench.live.arena import Arena
from bench.live.audit import Story
from bench.live.contender import Contender, cost, running
from bench.live.objects import GPUS_PER_NODE, Workload, pod
from gpufleet.model.model_errors import WorldError

LIMIT_S = 600.0
STALL_S = 300.0
"""A burst in which nothing was bound for so long is over: as long as kube-scheduler leaves pods that it
could not place before it looks at them again.
"""
SETTLE_S = 2.0
WARM_PODS = 8
STEADY_PER_S = 50.0
STEADY_S = 30.0


class Burst(msgspec.Struct, frozen=True):
    """One round of one scheduler on a workload that was there before it."""

    scheduler: str
    nodes: int
    pods: int
    gang_size: int
    create_s: float
    bind_s: float
    """From its first list to the last nodeName."""
    tell_s: float
    """From its first list to the last Event."""
    cpu_s: float
    peak_mib: float
    writes: dict[str, int]
    unbound: int = 0
    """How many pods were left when nothing had been bound for long."""

    @property
    def pods_per_s(self) -> float:
        """Pods bound a second, up to the last one that was."""
        return (self.pods - self.unbound) / self.bind_s


class Latency(msgspec.Struct, frozen=True):
    """From creation to binding, at a steady rate of arrivals."""

    scheduler: str
    nodes: int
    per_s: float
    p50_ms: float
    p99_ms: float


class OneWait(msgspec.Struct, frozen=True):
    """One time from a creation to an answer."""

    scheduler: str
    nodes: int
    what: str
    wait_s: float


def burst(here: Arena, who: Contender, nodes: int, workload: Workload) -> Burst:
    """Pods are created, then the scheduler is started; all that it costs until nothing is left to write."""
    here.clear()
    began_s = time.monotonic()
    here.create(workload.gangs("g"))
    made = here.create(workload.members("g", who.scheduler_name))
    create_s = time.monotonic() - began_s
    here.listener.skip()
    story = Story(who.user)
    with running(who, here.cluster, here.kube_scheduler, gangs=workload.gang_size > 1) as process:
        _all_bound_or_stalled(here, story, len(made))
        here.listener.until(story, lambda seen: seen.events >= len(seen.bound_s), LIMIT_S)
        spent = cost(process.pid)
    listed_s = story.first_list_s
    if listed_s is None:
        raise WorldError(f"{who.name} never listed anything")
    return Burst(
        who.name,
        nodes,
        len(made),
        workload.gang_size,
        create_s,
        story.last_bind_s - listed_s if story.bound_s else STALL_S,
        story.last_event_s - listed_s if story.events else STALL_S,
        spent.cpu_s,
        spent.peak_mib,
        dict(story.writes),
        len(made) - len(story.bound_s),
    )


def steady(here: Arena, who: Contender, nodes: int) -> Latency:
    """Pods come at a steady rate to a scheduler that is at work."""
    here.clear()
    story = Story(who.user)
    here.listener.skip()
    with running(who, here.cluster, here.kube_scheduler, gangs=False):
        _warm(here, who, story)
        pods = [pod(f"s-{number}", who.scheduler_name) for number in range(int(STEADY_PER_S * STEADY_S))]
        made = here.create(pods, per_s=STEADY_PER_S)
        _await(here, story, "all pods to be bound", lambda seen: made.keys() <= seen.bound_s.keys())
    waits_ms = [1000 * (story.bound_s[name] - at_s) for name, at_s in made.items()]
    return Latency(who.name, nodes, STEADY_PER_S, statistics.median(waits_ms), quantile(waits_ms, 0.99))


def large_gang(here: Arena, who: Contender, nodes: int, members: int) -> OneWait:
    """From the creation of a gang's last member to the binding of its last one."""
    here.clear()
    workload = Workload(members, members)
    story = Story(who.user)
    here.listener.skip()
    with running(who, here.cluster, here.kube_scheduler, gangs=True):
        _warm(here, who, story)
        here.create(workload.gangs("g"))
        made = here.create(workload.members("g", who.scheduler_name))
        _await(here, story, "the gang to be bound", lambda seen: made.keys() <= seen.bound_s.keys())
    wait_s = max(story.bound_s[name] for name in made) - max(made.values())
    return OneWait(who.name, nodes, f"gang of {members}", wait_s)


def cannot_run(here: Arena, who: Contender, nodes: int) -> OneWait:
    """From the creation of a pod on a full cluster to the condition that says why it waits."""
    here.clear()
    filling = [
        pod(f"f-{number}", who.scheduler_name, node_name=f"gpu-{number // GPUS_PER_NODE + 1:05}")
        for number in range(nodes * GPUS_PER_NODE)
    ]
    here.create(filling)
    story = Story(who.user)
    here.listener.skip()
    with running(who, here.cluster, here.kube_scheduler, gangs=False):
        here.create([pod("early", who.scheduler_name)])
        _await(here, story, "word on a first pod", lambda seen: "early" in seen.told_s)
        time.sleep(SETTLE_S)
        made = here.create([pod("late", who.scheduler_name)])
        _await(here, story, "word on the pod", lambda seen: "late" in seen.told_s)
    return OneWait(who.name, nodes, "cannot run", story.told_s["late"] - made["late"])


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _warm(here: Arena, who: Contender, story: Story) -> None:
    """Let the scheduler start and bind a few."""
    made = here.create(pod(f"w-{number}", who.scheduler_name) for number in range(WARM_PODS))
    _await(here, story, "the first pods to be bound", lambda seen: made.keys() <= seen.bound_s.keys())
    time.sleep(SETTLE_S)


def _all_bound_or_stalled(here: Arena, story: Story, pods: int) -> None:
    """Return when all pods are bound, or nothing has been for long."""
    bound = -1
    while bound < len(story.bound_s) < pods:
        bound = len(story.bound_s)
        here.listener.until(story, lambda seen: len(seen.bound_s) >= pods, STALL_S)


def _await(here: Arena, story: Story, what: str, done: Callable[[Story], bool]) -> None:
    if not here.listener.until(story, done, LIMIT_S):
        raise WorldError(f"waited {LIMIT_S:.0f} s in vain for {what}: {len(story.bound_s)} are bound")
