"""Nodes that the real Karpenter buys for the same work: for our scheduler, and for kube-scheduler alone.

Both run on one real control plane with simulated nodes, one after the other. Three gangs come member by
member: one that fills nodes, one of which two members share a node, and one of which half never comes.
kube-scheduler gets the members as single pods: in PodGroups of its own they wait with the reason
SchedulerError where no node has room (1.37.0), so Karpenter buys nothing. What is cheapest an integer
program finds.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.figures import Figure, figure
from bench.live.contender import BOTH, GPUFLEET, Contender
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.control_plane import Options
from gpufleet.plan.small_purchases import Bin, Item
from tests.karpenter.real_karpenter import (
    GPU,
    POOL,
    PRICES,
    QUEUES,
    TYPES,
    Fleet,
    node_pool,
    pods,
    queue,
    running_fleet,
)
from tests.localkube.cluster import KUBERNETES
from tests.plan.small_problems import optimum
from tests.waiting import until

BETWEEN_S = 3.0
"""Between two members, as on a busy cluster; Karpenter gathers pods for one second."""

SEEN_S = 20.0
"""So long after the start purchases still count: what waits for nothing is bought for at the latest then."""

UNNEEDED_S = 45
"""Longer than a trial goes on after the start, so that nothing is given back in between."""

STARTS_S = 180.0
"""A start that takes longer is a figure of its own."""

NAMESPACE = "default"
BEYOND_MAX = 0.05
"""How far beyond the optimum the cost may be."""

QUOTA_GPUS = 64
"""Enough for all."""


class Gang(msgspec.Struct, frozen=True):
    """``arrive`` of ``members`` come, each for ``gpus`` GPUs."""

    name: str
    members: int
    gpus: int
    arrive: int

    @property
    def is_whole(self) -> bool:
        """Whether it can start."""
        return self.arrive == self.members

    @property
    def names(self) -> list[str]:
        """Its pods."""
        return [f"{self.name}-{number}" for number in range(self.arrive)]


WORK = (Gang("half", 4, 8, 2), Gang("pair", 3, 4, 3), Gang("train", 3, 8, 3))


class Bought(msgspec.Struct, frozen=True):
    """What one scheduler brought about; ``start_s`` None where not all that could start did."""

    nodes: int
    cost_an_hour: float
    start_s: float | None


def figures() -> list[Figure]:
    """Nodes, cost and time of both, beside what is needed."""
    needed, least = _needed()
    found = []
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as name, _running(Path(name)) as fleet:
        for who in BOTH:
            bought = _trial(fleet, who)
            fleet.emptied()
            found += _figures_of(who, bought, needed, least)
    return found


def _figures_of(who: Contender, bought: Bought, needed: int, least: float) -> list[Figure]:
    beside = f"real Karpenter, {who.name}"
    is_ours = who is GPUFLEET
    nodes, cost = bought.nodes / needed, bought.cost_an_hour / least - 1
    found = [
        figure(f"{beside}: nodes bought, of those needed", nodes, "ratio", "lower", 1.0 if is_ours else None),
        figure(f"{beside}: cost beyond the optimum", cost, "ratio", "lower", BEYOND_MAX if is_ours else None),
        figure(f"{beside}: all gangs started whole", bought.start_s is not None, "", "higher", 1),
    ]
    if bought.start_s is not None:
        found.append(figure(f"{beside}: last member to whole start", bought.start_s, "s", "lower"))
    return found


def _needed() -> tuple[int, float]:
    """The nodes and the cost for an hour that an integer program finds for the gangs that can start."""
    bins = [Bin(round(price * 100)) for price in PRICES.values()]
    items = [
        Item(one.members, tuple((one.gpus / gpus, 0.0) if one.gpus <= gpus else None for gpus in PRICES))
        for one in WORK
        if one.is_whole
    ]
    cost, fewest = optimum(items, bins), optimum(items, [Bin(1) for _ in bins])
    if cost is None or fewest is None:
        raise AssertionError("the work fits no node")
    return fewest, cost / 100


@contextmanager
def _running(folder: Path) -> Iterator[Fleet]:
    options = Options(kubernetes=KUBERNETES, kube_scheduler=True)
    with running_fleet(folder, options) as fleet:
        fleet.api.apply(f"{QUEUES}/{NAMESPACE}", queue(NAMESPACE, QUOTA_GPUS))
        fleet.api.apply(POOL, node_pool(*TYPES, unneeded_s=UNNEEDED_S))
        yield fleet


def _trial(fleet: Fleet, who: Contender) -> Bought:
    before = set(fleet.claims())
    created_s = _create(fleet, who)
    names = [name for one in WORK if one.is_whole for name in one.names]
    start_s: float | None = None
    try:
        until(lambda: _all_run(fleet, names), STARTS_S)
        start_s = time.monotonic() - created_s
    except AssertionError:
        print(f"bench-scale: {who.name}: not all gangs started in {STARTS_S:.0f} s")
    time.sleep(SEEN_S)
    bought = [one for one in fleet.claims() if one not in before]
    return Bought(len(bought), sum(PRICES[gpus] for gpus in fleet.gpus_of_nodes()), start_s)


def _create(fleet: Fleet, who: Contender) -> float:
    """Create the work, member by member; when the last one was."""
    for gang in WORK:
        for name in gang.names:
            fleet.api.call("POST", pods(NAMESPACE), _pod(name, gang, who))
            time.sleep(BETWEEN_S)
    return time.monotonic() - BETWEEN_S


def _pod(name: str, gang: Gang, who: Contender) -> Object:
    container = {"name": "c", "image": "example.com/none", "resources": {"limits": {GPU: str(gang.gpus)}}}
    spec: Object = {"schedulerName": who.scheduler_name, "containers": [container]}
    spec["automountServiceAccountToken"] = False
    metadata: Object = {"name": name}
    if who is GPUFLEET:
        words = {"gpufleet.io/gang": gang.name, "gpufleet.io/gang-min-members": str(gang.members)}
        metadata["annotations"] = words
    return {"metadata": metadata, "spec": spec}


def _all_run(fleet: Fleet, names: list[str]) -> bool:
    listed = fleet.api.call("GET", pods(NAMESPACE))["items"]
    phases = {one["metadata"]["name"]: one["status"]["phase"] for one in listed}
    return all(phases.get(name) == "Running" for name in names)
