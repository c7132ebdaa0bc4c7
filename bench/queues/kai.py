"""KAI's scale cases on 500 nodes of 8 GPUs, in the engine alone.

Two queues share the fleet; ``team-b`` owns it and ``team-a`` borrows, so that what is reclaimed is
what KAI's cases reclaim. A gang of 10 cannot run in two ways: as KAI has it, where what may be taken back is
one GPU short of what it needs, and where nobody makes room for it at all. ``live`` has the same cases on a
control plane.
"""

import statistics
import time
from collections.abc import Callable

import msgspec

from bench.figures import Figure, figure
from bench.progress import say
from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, GangUnschedulable
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import Device
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DeviceId, GangName, GpuModelName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape

NODES = 500
GPUS_A_NODE = 8
GANG_PODS, GANG_GPUS = 512, 4
IMPOSSIBLE_PODS, IMPOSSIBLE_GPUS = 10, 8
ROUNDS = 3
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

    def __init__(self, nodes: int, borrower_owns: int = 0, owner_owns: int | None = None) -> None:
        self.engine = Engine(find_policy("gpufleet"))
        self.at_us = 0
        self.gpus = nodes * GPUS_A_NODE
        root = QueueName("fleet")
        never = PreemptionPolicy(within_queue=VictimScope.NEVER)
        lent = (Quota(GPU, borrower_owns * 1000),)
        owned = (Quota(GPU, (self.gpus if owner_owns is None else owner_owns) * 1000),)
        self.settle(
            *(event.NodeSet(node_of_eight(f"node-{number:03d}")) for number in range(nodes)),
            event.QueueSet(Queue(root)),
            event.QueueSet(Queue(BORROWER, parent=root, quotas=lent, preemption=never)),
            event.QueueSet(Queue(OWNER, parent=root, quotas=owned, preemption=never)),
        )

    def step(self, *events: event.Event) -> list[AnyInstruction]:
        """One step, a second later."""
        self.at_us += 1_000_000
        return self.engine.step(self.at_us, events)

    def settle(self, *events: event.Event) -> tuple[float, list[AnyInstruction]]:
        """Steps until nothing more follows: evicted pods end at once. Processor seconds, and all said."""
        waiting, said, took = list(events), [], 0.0
        while True:
            began = time.process_time()
            new = self.step(*waiting)
            took += time.process_time() - began
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


def _filled(arena: Arena) -> Arena:
    _, said = arena.settle(*_singles("old", BORROWER, arena.gpus))
    expect(arena.gpus, _binds(said))
    return arena


def fill(nodes: int) -> float:
    """A job of one GPU for each GPU of an empty fleet."""
    arena = Arena(nodes)
    took, said = arena.settle(*_singles("job", BORROWER, arena.gpus))
    expect(arena.gpus, _binds(said))
    return took


def gang(nodes: int) -> float:
    """One gang of half an empty fleet and a little more, four GPUs a pod: 512 pods of 500 nodes."""
    pods = GANG_PODS * nodes // NODES
    took, said = Arena(nodes).settle(*_gang("big", BORROWER, pods, GANG_GPUS))
    expect(pods, _binds(said))
    return took


def reclaim_one(nodes: int) -> float:
    """One GPU out of a full fleet."""
    took, said = _filled(Arena(nodes)).settle(*_singles("owed", OWNER, 1))
    expect(1, _binds(said))
    return took


def reclaim_all(nodes: int) -> float:
    """A job of one GPU for each GPU of a full fleet."""
    arena = _filled(Arena(nodes))
    took, said = arena.settle(*_singles("owed", OWNER, arena.gpus))
    expect(arena.gpus, _binds(said))
    return took


def one_gpu_short(nodes: int) -> float:
    """A gang whose queue may take back one GPU less than the gang needs."""
    needed = IMPOSSIBLE_PODS * IMPOSSIBLE_GPUS
    arena = Arena(nodes, nodes * GPUS_A_NODE - needed + 1, needed)
    return _refused(_filled(arena), OWNER)


def nobody_makes_room(nodes: int) -> float:
    """A gang of the queue that fills the fleet."""
    return _refused(_filled(Arena(nodes)), BORROWER)


def _refused(arena: Arena, queue: QueueName) -> float:
    took, said = arena.settle(*_gang("never", queue, IMPOSSIBLE_PODS, IMPOSSIBLE_GPUS))
    expect(1, sum(isinstance(one, GangUnschedulable) for one in said))
    expect(0, sum(isinstance(one, Evict | Bind) for one in said))
    return took


CASES: tuple[tuple[str, Callable[[int], float], float, float], ...] = (
    ("fill with 4,000 jobs", fill, 2.0, 398.0),
    ("gang of 512 pods", gang, 0.2, 48.7),
    ("reclaim of one GPU", reclaim_one, 0.02, 13.9),
    ("reclaim of 4,000 GPUs", reclaim_all, 2.0, 694.0),
    ("gang of 10 that cannot run, one GPU short", one_gpu_short, 0.02, 249.5),
    ("gang of 10 that cannot run, nobody makes room", nobody_makes_room, 0.02, 249.5),
)


def cases(rounds: int, nodes: int = NODES) -> list[list[Case]]:
    """Every case, so many times."""
    found = []
    for name, play, bar_s, published_s in CASES:
        say(f"KAI's {name}, {rounds} times")
        found.append([Case(name, play(nodes), bar_s, published_s) for _ in range(rounds)])
    return found


def figures(rounds: int = ROUNDS, nodes: int = NODES) -> list[Figure]:
    """The median of each case beside its bar, and how often it goes into what KAI publishes."""
    found: list[Figure] = []
    for measured in cases(rounds, nodes):
        case, took_s = measured[0], statistics.median(one.took_s for one in measured)
        found.append(figure(f"{nodes} nodes: {case.name}", 1000 * took_s, "ms", "lower", 1000 * case.bar_s))
        against = f"... faster than KAI's {case.published_s:g} s on a cluster"
        found.append(figure(against, case.published_s / took_s, "x", "higher"))
    return found
