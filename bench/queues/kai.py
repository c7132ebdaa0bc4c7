"""KAI's scale cases on 500 nodes of 8 GPUs, in the engine alone.

Two queues share the fleet; ``team-b`` owns it and ``team-a`` borrows, so that what is reclaimed is
what KAI's cases reclaim.
"""

import time
from collections.abc import Callable

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, GangUnschedulable
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import Device
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DeviceId, GangName, GpuModelName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Prey, Queue, Quota
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape

NODES = 500
GPUS_A_NODE = 8
GPUS = NODES * GPUS_A_NODE
BORROWER, OWNER = QueueName("team-a"), QueueName("team-b")


class BenchmarkError(RuntimeError):
    """The case did not do what it is named after."""


class Case(msgspec.Struct, frozen=True):
    """One case: what the engine took for it, the bar, and what KAI publishes (a live cluster)."""

    name: str
    took_s: float
    bar_s: float
    published_s: float


class Arena:
    """An engine with the fleet and the queues."""

    def __init__(self) -> None:
        self.engine = Engine(find_policy("gpufleet"))
        self.at_us = 0
        root = QueueName("fleet")
        never = PreemptionPolicy(within_queue=Prey.NEVER)
        owned = (Quota(GPU, GPUS * 1000),)
        self.settle(
            *(event.NodeSet(node_of_eight(f"node-{number:03d}")) for number in range(NODES)),
            event.QueueSet(Queue(root)),
            event.QueueSet(Queue(BORROWER, parent=root, quotas=(Quota(GPU, 0),), preemption=never)),
            event.QueueSet(Queue(OWNER, parent=root, quotas=owned, preemption=never)),
        )

    def step(self, *events: event.Event) -> list[AnyInstruction]:
        """One step, a second later."""
        self.at_us += 1_000_000
        return self.engine.step(self.at_us, events)

    def settle(self, *events: event.Event) -> tuple[float, list[AnyInstruction]]:
        """Steps until nothing more follows: evicted pods end at once. The engine's seconds, all said."""
        waiting, said, took = list(events), [], 0.0
        while True:
            began = time.perf_counter()
            new = self.step(*waiting)
            took += time.perf_counter() - began
            said += new
            waiting = [event.PodRemoved(one.uid) for one in new if isinstance(one, Evict)]
            if not waiting:
                return took, said


def node_of_eight(name: str) -> Node:
    """A node with eight GPUs and more of all else than they need."""
    devices = tuple(
        Device(DeviceId(f"{name}/{index}"), GpuModelName("H100"), 81_920) for index in range(GPUS_A_NODE)
    )
    return Node(NodeName(name), Resources(192_000, 1 << 41, 250), devices)


def _pod(name: str, queue: QueueName, gpus: int, gang: str | None = None) -> Pod:
    shape = Shape(Resources(1000, 1 << 30), GpuRequest(gpus, 1000))
    return Pod(PodUid(name), shape, name, queue, gang=None if gang is None else GangName(gang))


def _gang(name: str, queue: QueueName, pods: int, gpus: int) -> list[event.Event]:
    members = [event.PodAdded(_pod(f"{name}-{index}", queue, gpus, name)) for index in range(pods)]
    return [event.GangSet(Gang(GangName(name), pods, queue)), *members]


def _singles(name: str, queue: QueueName, count: int) -> list[event.Event]:
    return [event.PodAdded(_pod(f"{name}-{index}", queue, 1)) for index in range(count)]


def expect(wanted: int, found: int) -> None:
    """A figure of something else than the case says would be worth nothing."""
    if found != wanted:
        raise BenchmarkError(f"expected {wanted}, and {found} came of it")


def _binds(said: list[AnyInstruction]) -> int:
    return sum(isinstance(one, Bind) for one in said)


def _filled() -> Arena:
    arena = Arena()
    _, said = arena.settle(*_singles("old", BORROWER, GPUS))
    expect(GPUS, _binds(said))
    return arena


def fill() -> float:
    """4,000 jobs of one GPU into an empty fleet."""
    took, said = Arena().settle(*_singles("job", BORROWER, GPUS))
    expect(GPUS, _binds(said))
    return took


def gang() -> float:
    """One gang of 512 pods, four GPUs each, into an empty fleet."""
    took, said = Arena().settle(*_gang("big", BORROWER, 512, 4))
    expect(512, _binds(said))
    return took


def reclaim_one() -> float:
    """One GPU out of a full fleet."""
    took, said = _filled().settle(*_singles("owed", OWNER, 1))
    expect(1, _binds(said))
    return took


def reclaim_all() -> float:
    """4,000 jobs of one GPU out of a full fleet."""
    took, said = _filled().settle(*_singles("owed", OWNER, GPUS))
    expect(GPUS, _binds(said))
    return took


def cannot_run() -> float:
    """A gang of 10 pods, eight GPUs each, that nobody makes room for."""
    took, said = _filled().settle(*_gang("never", BORROWER, 10, 8))
    expect(1, sum(isinstance(one, GangUnschedulable) for one in said))
    return took


CASES: tuple[tuple[str, Callable[[], float], float, float], ...] = (
    ("fill with 4,000 jobs", fill, 2.0, 398.0),
    ("gang of 512 pods", gang, 0.2, 48.7),
    ("reclaim of one GPU", reclaim_one, 0.02, 13.9),
    ("reclaim of 4,000 GPUs", reclaim_all, 2.0, 694.0),
    ("gang of 10 that cannot run", cannot_run, 0.02, 249.5),
)


def cases(rounds: int) -> list[list[Case]]:
    """Every case, so many times."""
    return [
        [Case(name, play(), bar_s, published_s) for _ in range(rounds)]
        for name, play, bar_s, published_s in CASES
    ]
