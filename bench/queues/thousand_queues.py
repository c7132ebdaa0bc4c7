"""What a cycle costs with 10,000 nodes, 1,000 queues and 100,000 waiting pods.

Three levels of queues share a fleet that is full. Running pods end, and one cycle gives their room away:
once a thousand of them, then a hundred, then ten, which shows whether the cost follows the change.
"""

import random
import resource
import time

import msgspec

from bench.queues.kai import GPUS_A_NODE, expect, node_of_eight
from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, Queue, Quota
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape

NODES = 10_000
BRANCHES = 10
LEVELS = 3
PENDING = 100_000
ENDING = (1000, 100, 10)
CORES = (1, 2, 4, 8)
SEED = 7


class Measured(msgspec.Struct, frozen=True):
    """Seconds of the cycle by how many pods it started; and of what came before."""

    set_up_s: float
    submit_s: float
    cycle_s: dict[int, float]
    started: dict[int, int]
    idle_s: float
    peak_rss_mib: float


def measure() -> Measured:
    """Fill, queue up, and let some end."""
    chance = random.Random(SEED)
    engine = Engine(find_policy("gpufleet"))
    leaves = _leaves()
    running = [
        _pod(f"old-{number}", leaves[number % len(leaves)], chance) for number in range(NODES * GPUS_A_NODE)
    ]
    began = time.perf_counter()
    _settle(engine, 0, [*_fleet(), *_queues()])
    said = _settle(engine, 1, [event.PodAdded(pod) for pod in running])
    set_up_s = time.perf_counter() - began
    placed = [one.uid for one in said if isinstance(one, Bind)]
    expect(len(running), len(placed))
    waiting = [_pod(f"new-{number}", chance.choice(leaves), chance) for number in range(PENDING)]
    began = time.perf_counter()
    _settle(engine, 2, [event.PodAdded(pod) for pod in waiting])
    submit_s = time.perf_counter() - began
    chance.shuffle(placed)
    cycle_s, started = {}, {}
    for number, count in enumerate(ENDING):
        gone, placed = placed[:count], placed[count:]
        began = time.perf_counter()
        said = engine.step((3 + number) * 1_000_000, [event.PodRemoved(uid) for uid in gone])
        cycle_s[count] = time.perf_counter() - began
        started[count] = sum(isinstance(one, Bind) for one in said)
    began = time.perf_counter()
    engine.step(60_000_000)
    idle_s = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(set_up_s, submit_s, cycle_s, started, idle_s, peak)


def _settle(engine: Engine, at_s: int, events: list[event.Event]) -> list[AnyInstruction]:
    said = engine.step(at_s * 1_000_000, events)
    engine.step(at_s * 1_000_000, [engine.study()])
    return said


def _leaves() -> list[QueueName]:
    names = [""]
    for _ in range(LEVELS):
        names = [f"{name}-{branch}" if name else f"q{branch}" for name in names for branch in range(BRANCHES)]
    return [QueueName(name) for name in names]


def _queues() -> list[event.Event]:
    """A tree of ten by ten by ten: each leaf owns its part of the GPUs and may borrow the rest."""
    leaves = _leaves()
    owned = Quota(GPU, NODES * GPUS_A_NODE * 1000 // len(leaves))
    events: list[event.Event] = [event.QueueSet(Queue(QueueName("fleet")))]
    known: set[str] = set()
    for leaf in leaves:
        parts = leaf.split("-")
        for depth in range(1, len(parts) + 1):
            name = "-".join(parts[:depth])
            if name not in known:
                known.add(name)
                parent = QueueName("-".join(parts[: depth - 1]) or "fleet")
                quotas = (owned,) if depth == len(parts) else ()
                events.append(event.QueueSet(Queue(QueueName(name), parent=parent, quotas=quotas)))
    return events


def _fleet() -> list[event.Event]:
    return [event.NodeSet(node_of_eight(f"n{number:05d}")) for number in range(NODES)]


def _pod(name: str, queue: QueueName, chance: random.Random) -> Pod:
    shape = Shape(Resources(1000 * chance.choice(CORES), 1 << 30), GpuRequest(1, 1000))
    return Pod(PodUid(name), shape, name, queue)


if __name__ == "__main__":
    print(msgspec.json.encode(measure()).decode())
