"""What a cycle costs with 10,000 nodes, 1,000 queues and 100,000 waiting pods.

Three levels of queues share a fleet that is full. Running pods end, and one cycle gives their room away:
once a thousand of them, then a hundred, then ten, which shows whether the cost follows the change. What
survived a garbage collection is set apart, as in the live scheduler: else a walk over all objects falls into
one of the cycles, by chance.
"""

import gc
import random
import resource
import subprocess
import sys
import time

import msgspec

from bench.figures import Figure, figure
from bench.progress import say
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
from gpufleet.scheduler.garbage_collection import GarbageCollectorTuning

LEVELS = 3
CORES = (1, 2, 4, 8)
SEED = 7
CYCLE_BARS_MS = {1000: 150.0, 10: 20.0}
"""By how many pods the cycle starts."""
TAKING_IN_BAR_S = 2.0
MEMORY_BAR_MIB = 400.0


class Size(msgspec.Struct, frozen=True):
    """How large: ``branches`` queues below each of three levels; ``ending`` pods end before each cycle."""

    nodes: int = 10_000
    branches: int = 10
    pending: int = 100_000
    ending: tuple[int, ...] = (1000, 100, 10)

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.nodes:,} nodes, {self.branches**LEVELS:,} queues, {self.pending:,} waiting"


FULL = Size()


class Measured(msgspec.Struct, frozen=True):
    """Seconds of the cycle by how many pods it started; and of what came before."""

    set_up_s: float
    submit_s: float
    cycle_s: dict[int, float]
    started: dict[int, int]
    idle_s: float
    peak_rss_mib: float


def measure(size: Size = FULL) -> Measured:
    """Fill, queue up, and let some end."""
    garbage = GarbageCollectorTuning()
    garbage.watch()
    try:
        return _measure(size)
    finally:
        garbage.leave()


def _measure(size: Size) -> Measured:
    chance = random.Random(SEED)
    engine = Engine(find_policy("gpufleet"))
    leaves = _leaves(size)
    running = [
        _pod(f"old-{number}", leaves[number % len(leaves)], chance)
        for number in range(size.nodes * GPUS_A_NODE)
    ]
    say(f"{size.title}: {len(running):,} pods fill the fleet")
    began = time.process_time()
    _settle(engine, 0, [*_fleet(size), *_queues(size)])
    said = _settle(engine, 1, [event.PodAdded(pod) for pod in running])
    set_up_s = time.process_time() - began
    placed = [one.uid for one in said if isinstance(one, Bind)]
    expect(len(running), len(placed))
    waiting = [_pod(f"new-{number}", chance.choice(leaves), chance) for number in range(size.pending)]
    say(f"{size.title}: more arrive")
    began = time.process_time()
    _settle(engine, 2, [event.PodAdded(pod) for pod in waiting])
    submit_s = time.process_time() - began
    # What taking them in left is set apart now, and not in whichever cycle comes to it.
    gc.collect()
    chance.shuffle(placed)
    say(f"{size.title}: some end")
    cycle_s, started = {}, {}
    for number, count in enumerate(size.ending):
        gone, placed = placed[:count], placed[count:]
        began = time.process_time()
        said = engine.step((3 + number) * 1_000_000, [event.PodRemoved(uid) for uid in gone])
        cycle_s[count] = time.process_time() - began
        started[count] = sum(isinstance(one, Bind) for one in said)
    began = time.process_time()
    engine.step(60_000_000)
    idle_s = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(set_up_s, submit_s, cycle_s, started, idle_s, peak)


def figures() -> list[Figure]:
    """Measured in a process of its own, so that its memory is its own."""
    command = [sys.executable, "-m", "bench.queues.thousand_queues"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return figures_of(msgspec.json.decode(done.stdout, type=Measured), FULL)


def figures_of(measured: Measured, size: Size) -> list[Figure]:
    """What is published; the bars are for the full size."""
    bars_ms = CYCLE_BARS_MS if size == FULL else {}
    taking_in_s, memory_mib = (TAKING_IN_BAR_S, MEMORY_BAR_MIB) if size == FULL else (None, None)
    cycles = [
        figure(
            f"{size.title}: a cycle that starts {measured.started[count]:,}",
            1000 * took_s,
            "ms",
            "lower",
            bars_ms.get(count),
        )
        for count, took_s in measured.cycle_s.items()
    ]
    return [
        *cycles,
        figure(f"{size.title}: a cycle without change", 1000 * measured.idle_s, "ms", "lower"),
        figure(f"{size.title}: taking the pods in", measured.submit_s, "s", "lower", taking_in_s),
        figure(f"{size.title}: peak memory", measured.peak_rss_mib, "MiB", "lower", memory_mib),
    ]


def _settle(engine: Engine, at_s: int, events: list[event.Event]) -> list[AnyInstruction]:
    said = engine.step(at_s * 1_000_000, events)
    engine.step(at_s * 1_000_000, [engine.study()])
    return said


def _leaves(size: Size) -> list[QueueName]:
    names = [""]
    for _ in range(LEVELS):
        names = [
            f"{name}-{branch}" if name else f"q{branch}" for name in names for branch in range(size.branches)
        ]
    return [QueueName(name) for name in names]


def _queues(size: Size) -> list[event.Event]:
    """A tree of ten by ten by ten: each leaf owns its part of the GPUs and may borrow the rest."""
    leaves = _leaves(size)
    owned = Quota(GPU, size.nodes * GPUS_A_NODE * 1000 // len(leaves))
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


def _fleet(size: Size) -> list[event.Event]:
    return [event.NodeSet(node_of_eight(f"n{number:05d}")) for number in range(size.nodes)]


def _pod(name: str, queue: QueueName, chance: random.Random) -> Pod:
    shape = Shape(Resources(1000 * chance.choice(CORES), 1 << 30), GpuRequest(1, 1000))
    return Pod(PodUid(name), shape, name, queue)


if __name__ == "__main__":
    print(msgspec.json.encode(measure()).decode())
