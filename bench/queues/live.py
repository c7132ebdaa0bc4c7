"""KAI's scale cases on a real control plane with 500 nodes of 8 GPUs that KWOK plays.

As in KAI's own suite the pods of *fill*, *gang* and *reclaim of 4,000* exist before the scheduler starts, and
the clock runs from its start, here from that of its process, until the last pod has a node; when KWOK let it
run is told too. *Reclaim of one* and *cannot run* happen one after another on a full fleet with the scheduler
at work, from the creation of the pods to the binding, or to the condition that says why not. What the
scheduler did is timed by the API server's own log. Pods stand alone here and are not of Jobs: those who are
evicted do not come back.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.figures import Figure, figure
from bench.live.arena import KWOK_USER, PODS_PATH, Arena, arena
from bench.live.audit import Listener, Story
from bench.live.contender import GPUFLEET, running
from bench.live.objects import GPUS_PER_NODE, NAMESPACE, Object
from bench.progress import Progress, say
from bench.queues.kai import (
    BORROWER,
    GANG_GPUS,
    GANG_PODS,
    IMPOSSIBLE_GPUS,
    IMPOSSIBLE_PODS,
    NODES,
    OWNER,
)
from gpufleet.kube import keys
from gpufleet.model.identifiers import QueueName
from gpufleet.model.model_errors import WorldError

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
MERGE = "application/merge-patch+json"
TIMES = 10
LIMIT_S = 900.0
FASTER_LEAST = 5.0
PUBLISHED_S = {
    "gang of 512 pods": 48.7,
    "fill with 4,000 jobs": 398.0,
    "gang of 10 that cannot run": 249.5,
    "reclaim of one GPU": 13.9,
    "reclaim of 4,000 GPUs": 694.0,
}


class Took(NamedTuple):
    """Seconds until the last pod was bound or told why not, and until the last ran, where that was seen."""

    decided_s: float
    ran_s: float | None = None


class Trial:
    """The cases one after another on one control plane."""

    def __init__(self, here: Arena, nodes: int, times: int) -> None:
        self.here = here
        self.gpus = nodes * GPUS_PER_NODE
        self.gang_pods = GANG_PODS * nodes // NODES
        self.times = times

    def run(self) -> Iterator[tuple[str, "Took"]]:
        """Each case and what it took."""
        needed = IMPOSSIBLE_PODS * IMPOSSIBLE_GPUS
        self._queues(self.gpus - needed + 1, needed)
        gang = [
            _pod(f"g-{number}", BORROWER, GANG_GPUS, "g", self.gang_pods) for number in range(self.gang_pods)
        ]
        yield "gang of 512 pods", self._until_running("gang", gang)
        self.here.clear()
        yield "fill with 4,000 jobs", self._until_running("fill", _singles("f", BORROWER, self.gpus))
        with self._at_work():
            yield "gang of 10 that cannot run", Took(statistics.fmean(map(self._refusal, range(self.times))))
            self._own(BORROWER, 0)
            self._own(OWNER, self.gpus)
            yield "reclaim of one GPU", Took(statistics.fmean(map(self._reclaim, range(self.times))))
            self._remove([f"one-{number}" for number in range(self.times)])
            self._bind_all(_singles("again", BORROWER, self.times))
        yield "reclaim of 4,000 GPUs", self._until_running("reclaim", _singles("all", OWNER, self.gpus))

    def _queues(self, borrower_owns: int, owner_owns: int) -> None:
        with self.here.cluster.api() as api:
            api.call("POST", QUEUES, _queue("fleet", None))
            api.call("POST", QUEUES, _queue(BORROWER, borrower_owns))
            api.call("POST", QUEUES, _queue(OWNER, owner_owns))

    def _own(self, name: QueueName, gpus: int) -> None:
        body = {"spec": {"quotas": [{"resource": "gpu", "nominal": gpus}]}}
        with self.here.cluster.api() as api:
            api.call("PATCH", f"{QUEUES}/{name}", body, MERGE)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """The scheduler for the length of the block, from the moment when it has looked at the fleet."""
        with running(GPUFLEET, self.here.cluster, self.here.kube_scheduler, gangs=True):
            self._refused("warm")
            yield

    def _until_running(self, what: str, pods: list[Object]) -> "Took":
        """The pods are there, then the scheduler starts: until the last of them is bound, and runs."""
        say(f"live, {what}: {len(pods):,} pods are made")
        names = set(self.here.create(pods))
        self.here.listener.skip()
        kubelets = self.here.another_listener()
        began_s = time.time()
        with running(GPUFLEET, self.here.cluster, self.here.kube_scheduler, gangs=True):
            bound_s = self._all_bound(what, names) - began_s
            story = Story(KWOK_USER)
            _await(kubelets, f"live, {what}: pods that run", names, story, story.told_s)
        return Took(bound_s, max(story.told_s[name] for name in names) - began_s)

    def _bind_all(self, pods: list[Object]) -> tuple[float, float]:
        """When the first of them was sent, and the last was bound."""
        self.here.listener.skip()
        made = self.here.create(pods)
        return min(made.values()), self._all_bound("some pods", set(made))

    def _all_bound(self, what: str, names: set[str]) -> float:
        story = Story(GPUFLEET.user)
        _await(self.here.listener, f"live, {what}: pods that are bound", names, story, story.bound_s)
        return max(story.bound_s[name] for name in names)

    def _reclaim(self, number: int) -> float:
        began_s, bound_s = self._bind_all([_pod(f"one-{number}", OWNER, 1)])
        return bound_s - began_s

    def _refusal(self, number: int) -> float:
        return self._refused(f"never-{number}")

    def _refused(self, name: str) -> float:
        """A gang that may take back one GPU less than it needs: seconds until each member is told."""
        members = [
            _pod(f"{name}-{number}", OWNER, IMPOSSIBLE_GPUS, name, IMPOSSIBLE_PODS)
            for number in range(IMPOSSIBLE_PODS)
        ]
        story = Story(GPUFLEET.user)
        self.here.listener.skip()
        made = self.here.create(members)
        if not self.here.listener.until(story, lambda seen: made.keys() <= seen.told_s.keys(), LIMIT_S):
            raise WorldError(f"{name}: {len(story.told_s)} of its pods were told that they cannot run")
        if story.writes["create pods/eviction"]:
            raise WorldError(f"{name}: pods were evicted for a gang that cannot run")
        self._remove(list(made))
        return max(story.told_s[one] for one in made) - min(made.values())

    def _remove(self, names: list[str]) -> None:
        with self.here.cluster.api() as api:
            for name in names:
                api.call("DELETE", f"{PODS_PATH}/{name}", {"gracePeriodSeconds": 0})


def _await(listener: Listener, title: str, names: set[str], story: Story, seen: dict[str, float]) -> None:
    """Read on until all these pods are among those that the story has seen."""
    progress = Progress(title, len(names))

    def done(_: Story) -> bool:
        count = len(names & seen.keys())
        progress.at(count)
        return count == len(names)

    if not listener.until(story, done, LIMIT_S):
        raise WorldError(f"{title}: {len(names - seen.keys())} are missing after {LIMIT_S:.0f} s")


def _queue(name: str, gpus: int | None) -> Object:
    spec: Object = (
        {} if gpus is None else {"parent": "fleet", "quotas": [{"resource": "gpu", "nominal": gpus}]}
    )
    return {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "FleetQueue",
        "metadata": {"name": name},
        "spec": spec,
    }


def _singles(prefix: str, queue: QueueName, count: int) -> list[Object]:
    return [_pod(f"{prefix}-{number}", queue, 1) for number in range(count)]


def _pod(name: str, queue: QueueName, gpus: int, gang: str = "", members: int = 0) -> Object:
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "registry.example/train:1", "resources": {"limits": limits}}
    annotations = {keys.GANG: gang, keys.GANG_MIN_MEMBERS: str(members)} if gang else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {keys.QUEUE: queue},
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": GPUFLEET.scheduler_name,
            "automountServiceAccountToken": False,
            "containers": [container],
            "restartPolicy": "Never",
        },
    }


def figures(nodes: int = NODES, times: int = TIMES) -> list[Figure]:
    """Every case beside what KAI publishes for it."""
    say(f"live, a control plane with {nodes} KWOK nodes")
    found: list[Figure] = []
    with arena(nodes, kubelets=True) as here:
        for name, took in Trial(here, nodes, times).run():
            say(f"live, {name}: {took.decided_s:.3g} s")
            published_s = PUBLISHED_S[name]
            title = f"live, {nodes} KWOK nodes: {name}"
            found.append(figure(title, took.decided_s, "s", "lower", published_s / FASTER_LEAST))
            against = f"... faster than KAI's {published_s:g} s"
            found.append(figure(against, published_s / took.decided_s, "x", "higher", FASTER_LEAST))
            if took.ran_s is not None:
                found.append(figure("... until KWOK has let the last pod run", took.ran_s, "s", "lower"))
    return found
