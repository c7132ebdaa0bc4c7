"""Synthetic fleets and streams of work for the engine: 8-GPU nodes, 100 shapes, churn.

Run as ``python -m bench.synthetic NODES``: measures one size in a process of its own, so that its
peak memory is its own, and prints the figures as JSON. ``bench.engine`` collects them.
"""

import heapq
import random
import resource
import sys
import time

import click
import msgspec

from gpufleet.cli.main import run_program
from gpufleet.cli.parameters import Whole
from gpufleet.engine.compile import story
from gpufleet.engine.event import Event, GangSet, NodeSet, PodAdded, PodRemoved
from gpufleet.engine.explanations.sentences import explain, explain_gang
from gpufleet.engine.instruction import AnyInstruction, Bind, GangUnschedulable, Learn, Unschedulable
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import Device
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DeviceId, GangName, GpuModelName, NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape

PODS = 100_000
SHAPES = 100
GIBIBYTE = 1 << 30
BUSY = 0.9
GANG = 1000


class Measured(msgspec.Struct):
    """What one size of fleet gave; times in seconds."""

    nodes: int
    decisions: int = 0
    placed: int = 0
    valuations: int = 0
    seconds: float = 0.0
    set_up_seconds: float = 0.0
    unseen_shape_seconds: float = 0.0
    verdict_seconds: float = 0.0
    gang_placed_seconds: float = 0.0
    gang_refused_seconds: float = 0.0
    peak_rss_mib: float = 0.0


def shapes(source: random.Random) -> list[Shape]:
    """A hundred shapes: 45 shares, 40 of one GPU, 15 of two to eight."""
    requests = [GpuRequest(1, source.randrange(50, 1000, 10)) for _ in range(45)]
    requests += [GpuRequest(1, 1000)] * 40
    requests += [GpuRequest(source.choice((2, 2, 4, 8)), 1000) for _ in range(15)]
    return [
        Shape(
            Resources(
                cpu_milli=gpu.count * source.randrange(1000, 12_000, 250),
                memory_bytes=gpu.count * source.randrange(4, 48) * GIBIBYTE,
            ),
            gpu,
        )
        for gpu in requests
    ]


def node(number: int) -> Node:
    """A node with eight GPUs, 96 cores and 768 GiB."""
    name = NodeName(f"node-{number:05}")
    devices = tuple(
        Device(DeviceId(f"{name}/{index}"), GpuModelName("H100"), 81_559, index // 4) for index in range(8)
    )
    return Node(name, Resources(96_000, 768 * GIBIBYTE, 250), devices, {"kubernetes.io/hostname": name})


class Stream:
    """Arrivals and departures that keep a fleet about 90 % busy."""

    def __init__(self, nodes: int) -> None:
        self.source = random.Random(1)
        self.kinds = shapes(self.source)
        self.engine = Engine(find_policy("gpufleet"), seed=1)
        self.measured = Measured(nodes)
        mean_gpus = sum(shape.gpu.total_milli for shape in self.kinds) / len(self.kinds) / 1000
        self.life = BUSY * 8 * nodes / mean_gpus
        self.leaving: list[tuple[int, PodUid]] = []

    def step(self, at_us: int, events: list[Event]) -> list[AnyInstruction]:
        """One timed step, valuations included."""
        started = time.perf_counter()
        said = self.engine.step(at_us, events)
        if isinstance(said[-1] if said else None, Learn):
            self.measured.valuations += 1
            said += self.engine.step(at_us, [self.engine.study()])
        self.measured.seconds += time.perf_counter() - started
        return said

    def run(self) -> Measured:
        """Set up, churn, then the single questions."""
        started = time.perf_counter()
        self.engine.step(0, [NodeSet(node(number)) for number in range(self.measured.nodes)])
        self.measured.set_up_seconds = time.perf_counter() - started
        for number in range(1, PODS + 1):
            self.churn(number)
        self.measured.decisions = PODS
        self.ask()
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.measured.peak_rss_mib = peak_kib / 1024
        return self.measured

    def churn(self, number: int) -> None:
        """One pod comes, those whose time is over go; a refused pod gives up at once."""
        events: list[Event] = []
        while self.leaving and self.leaving[0][0] <= number:
            events.append(PodRemoved(heapq.heappop(self.leaving)[1]))
        uid = PodUid(f"pod-{number}")
        events.append(PodAdded(Pod(uid, self.source.choice(self.kinds))))
        leaves = number + 1
        for one in self.step(number, events):
            if isinstance(one, Bind):
                self.measured.placed += 1
                leaves = number + 1 + int(self.source.expovariate(1 / self.life))
        heapq.heappush(self.leaving, (leaves, uid))

    def ask(self) -> None:
        """First pod of an unseen shape, a verdict with its words, gangs that fit and that do not."""
        churned = self.measured.seconds
        unseen = Shape(Resources(1234, GIBIBYTE), GpuRequest(1, 77))
        self.measured.unseen_shape_seconds = self.timed([PodAdded(Pod(PodUid("unseen"), unseen))])[0]
        impossible = Shape(Resources(200_000, GIBIBYTE), GpuRequest(8, 1000))
        took, said = self.timed([PodAdded(Pod(PodUid("impossible"), impossible))])
        started = time.perf_counter()
        words = [explain(one.verdict, impossible) for one in said if isinstance(one, Unschedulable)]
        self.measured.verdict_seconds = took + time.perf_counter() - started
        if len(words) != 1:
            raise SystemExit("the impossible pod was not refused")
        small = Shape(Resources(100), GpuRequest(1, 10))
        self.measured.gang_placed_seconds = self.gang("small", [small] * GANG, fits=True)
        spoilt = [small] * (GANG - 1) + [impossible]
        self.measured.gang_refused_seconds = self.gang("spoilt", spoilt, fits=False)
        self.measured.seconds = churned

    def timed(self, events: list[Event]) -> tuple[float, list[AnyInstruction]]:
        """Seconds of one step."""
        started = time.perf_counter()
        said = self.engine.step(PODS + 1, events)
        return time.perf_counter() - started, said

    def gang(self, name: str, members: list[Shape], *, fits: bool) -> float:
        """Seconds to decide a gang of a thousand whose members are all there."""
        gang = GangName(name)
        pods: list[Event] = [
            PodAdded(Pod(PodUid(f"{name}-{number}"), shape, gang=gang))
            for number, shape in enumerate(members)
        ]
        self.timed(pods)
        took, said = self.timed([GangSet(Gang(gang, GANG))])
        binds = sum(isinstance(one, Bind) for one in said)
        if binds != (GANG if fits else 0):
            raise SystemExit(f"gang {name}: {binds} binds")
        for one in said:
            if isinstance(one, GangUnschedulable):
                started = time.perf_counter()
                explain_gang(one, members[-1])
                took += time.perf_counter() - started
        return took


@click.command()
@click.argument("nodes", type=Whole(1, 1_000_000))
def main(nodes: int) -> None:
    """Measure a fleet of so many NODES."""
    story(find_policy("gpufleet"))  # loads the kernels, as a scheduler does when it starts
    sys.stdout.write(msgspec.json.encode(Stream(nodes).run()).decode() + "\n")


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.synthetic"))
