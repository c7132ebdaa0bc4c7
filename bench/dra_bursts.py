"""Pods with claims placed by gpufleet and by kube-scheduler, in turns, on the same simulated nodes.

Pods and their claims are there before the scheduler starts. Each burst has an API server of its own, so that
no claim of one is left to the other. A pod counts once its Binding is written, which both write after the
claim's devices.

gpufleet's Lease is there for both: without it the API server asks for the Lease anew with each Binding of
either, because the policy that fences older leaders names it, and refuses some when it is busy.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from bench.claims import MIX, devices_as_listed, slices
from bench.figures import Figure, figure
from bench.live.arena import Arena, arena
from bench.live.audit import Story
from bench.live.contender import BOTH, GPUFLEET, KUBE, Contender, cost, running
from bench.live.objects import NAMESPACE, Object
from gpufleet.cluster.settings import LEASE_NAME, LEASE_NAMESPACE
from gpufleet.model.model_errors import WorldError

DRIVER = "gpu.nvidia.com"
CARDS = 8
CARDS_TO_CUT = 2
SLICES_OF_A_CARD = 2
"""One with its counters, and one with its devices."""

STALL_S = 60.0
"""A burst in which nothing was bound for so long is over."""

BURST_MOST_S = 150.0
"""A burst that takes longer is over too: what was bound by then says how fast it was."""


@dataclass(frozen=True, slots=True)
class Load:
    """A burst: how many pods come to how many nodes, what a node offers, and what a pod claims."""

    name: str
    nodes: int
    pods: int
    offers: Callable[[str], Iterator[Object]]
    selector: Callable[[int], str]
    times: float
    """As many times kube-scheduler's pods a second are to be bound."""


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of one scheduler's burst. The time is from its first list to the last Binding."""

    bound: int
    pods: int
    bind_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Claims with devices, and pods bound, a second."""
        return self.bound / self.bind_s if self.bound else 0.0


def whole_cards(node: str) -> Iterator[Object]:
    """A node with eight cards."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{number}"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02}"},
            },
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for number in range(CARDS)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    yield _slice(node, {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices})


def cards_to_cut(node: str) -> Iterator[Object]:
    """A node with two cards that are cut as claims come, each a pool with shared counters."""
    for one in itertools.islice(slices(devices_as_listed), SLICES_OF_A_CARD * CARDS_TO_CUT):
        spec = json.loads(msgspec.json.encode(one.spec))
        spec["nodeName"] = node
        spec["pool"]["name"] = f"{node}/{spec['pool']['name'].rpartition('/')[2]}"
        yield _slice(f"{node}-{one.metadata.name}", spec)


def _slice(name: str, spec: Object) -> Object:
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def whole(_number: int) -> str:
    """Every claim is for a whole card."""
    return f'device.attributes["{DRIVER}"].type == "gpu"'


def profile(number: int) -> str:
    """Claims for MIG profiles by turns."""
    name = list(MIX)[number % len(MIX)]
    return f'device.attributes["{DRIVER}"].?profile.orValue("") == "{name}"'


LOADS = {
    "whole-cards": Load("whole cards", 500, 2_000, whole_cards, whole, 2.0),
    "partitionable": Load("partitionable devices", 500, 500, cards_to_cut, profile, 20.0),
}
"""By the name under which a part is asked for."""

SMALL_NODES = 10
SMALL_PODS = 20
"""Shows that a burst runs, and not how fast."""


def claim(name: str, selector: str) -> Object:
    """A claim for one device."""
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": selector}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    return {**kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def pod(name: str, scheduler: str) -> Object:
    """A pod with the claim of its name."""
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"requests": requests, "claims": [{"name": "gpu"}]},
    }
    spec: Object = {
        "schedulerName": scheduler,
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        "restartPolicy": "Never",
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def furnish(here: Arena, load: Load, who: Contender) -> None:
    """The devices, their class, and the work that waits."""
    expression = f'device.driver == "{DRIVER}"'
    with here.cluster.api() as api:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
        api.call("POST", path, {"metadata": {"name": LEASE_NAME}, "spec": {"leaseTransitions": 0}})
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        path = "/apis/resource.k8s.io/v1/deviceclasses"
        api.call("POST", path, {"metadata": {"name": "gpu"}, "spec": spec})
        nodes = [one["metadata"]["name"] for one in api.call("GET", "/api/v1/nodes")["items"]]
    here.create(one for node in nodes for one in load.offers(node))
    names = [f"p-{number}" for number in range(load.pods)]
    here.create(claim(name, load.selector(number)) for number, name in enumerate(names))
    here.create(pod(name, who.scheduler_name) for name in names)


def burst(load: Load, who: Contender) -> Burst:
    """One scheduler's burst on a server of its own."""
    with arena(load.nodes) as here:
        furnish(here, load, who)
        here.listener.skip()
        story = Story(who.user)
        with running(who, here.cluster, here.kube_scheduler, gangs=False) as process:
            bound, ends_s = -1, time.monotonic() + BURST_MOST_S
            while bound < len(story.bound_s) < load.pods and time.monotonic() < ends_s:
                bound = len(story.bound_s)
                wait_s = min(STALL_S, max(0.0, ends_s - time.monotonic()))
                here.listener.until(story, lambda seen: len(seen.bound_s) >= load.pods, wait_s)
            spent = cost(process.pid)
        if story.first_list_s is None:
            raise WorldError(f"{who.name} never listed anything")
        bind_s = story.last_bind_s - story.first_list_s if story.bound_s else STALL_S
        return Burst(len(story.bound_s), load.pods, bind_s, spent.cpu_s)


def measured(part: str, *, small: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """The figures of a burst; targets are for the full size."""
    load = LOADS[part]
    if small:
        load = replace(load, nodes=SMALL_NODES, pods=SMALL_PODS)
    found: dict[str, Burst] = {}
    for who in BOTH:
        began_s = time.monotonic()
        found[who.name] = burst(load, who)
        say(f"{load.name}, {who.name}: {found[who.name]}, {time.monotonic() - began_s:.0f} s in all")
    yield from _figures(load, found, judged=not small)


def _figures(load: Load, found: dict[str, Burst], *, judged: bool) -> Sequence[Figure]:
    name = f"{load.name}, {load.nodes} nodes, {load.pods} pods"
    ours, theirs = found[GPUFLEET.name], found[KUBE.name]
    rows = []
    for who, one in found.items():
        rows += [
            figure(f"{name}: {who}, claims and pods", one.per_s, "1/s", "higher"),
            figure(f"{name}: {who}, left without a node", one.pods - one.bound, "pods", "lower"),
            figure(f"{name}: {who}, processor time", one.cpu_s, "s", "lower"),
        ]
    ratio = ours.per_s / theirs.per_s if theirs.per_s else float("inf")
    rows.append(
        figure(f"{name}: beside kube-scheduler", ratio, "times", "higher", load.times if judged else None)
    )
    spared = theirs.cpu_s / ours.cpu_s
    rows.append(figure(f"{name}: processor time spared", spared, "times", "higher", 1.0 if judged else None))
    return rows
