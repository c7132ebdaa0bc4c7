"""Two checkouts measured in turns on one machine: what became slower, beyond noise.

``python -m bench.compare BEFORE AFTER [PART]...`` runs programs that both checkouts have, each in its own
folder and by its own ``.venv``: before, after, before, after. Of every figure the least of all rounds
counts, because other work on the machine only ever adds to it. *Noise* is by how much the second least is
more than the least, of whichever side that is more. Figures are seconds of processor time, of a whole process
in user mode, or within it; but for those that are named MiB.

Both checkouts must be set up (``make setup`` in each), so that no kernel is compiled in a measurement.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from bench.figures import machine
from bench.progress import say
from gpufleet.cli.main import run_program
from gpufleet.cli.parameters import OneOf, Whole
from gpufleet.model.model_errors import InputError

NOISE_LEAST = 0.05
"""Figures of one checkout, measured in turns with itself, differ by so much on a machine that others use."""

SAME_MANIFESTS = "examples"
"""What is linted is that of the checkout before, on both sides: the examples grow."""

POLICIES = ("fgd", "gpufleet")

Figures = dict[str, float]


class Checkout(NamedTuple):
    """A folder with the sources and their environment."""

    folder: Path

    @property
    def python(self) -> str:
        """Its own interpreter."""
        return str(self.folder / ".venv/bin/python")

    def run(self, *arguments: str, may_find: bool = False) -> tuple[bytes, float]:
        """What a program prints, and its processor time in user mode.

        ``may_find``: it may end with 1, as lint does that finds something.
        """
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        environment = {**os.environ, "PYTHONPATH": ""}
        done = subprocess.run(
            [self.python, *arguments],
            check=False,
            cwd=self.folder,
            env=environment,
            capture_output=True,
        )
        if done.returncode not in {0, int(may_find)}:
            words = done.stderr.decode(errors="replace").strip()[-500:]
            raise InputError(
                f"{' '.join(arguments)} ended with {done.returncode}: {words}",
                field="checkout",
                value=str(self.folder),
                expected="one that is set up (make setup)",
            )
        return done.stdout, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


BY_CPU = """
import sys, time
import msgspec

time.perf_counter = time.process_time
"""
"""Other work on the machine makes every duration longer, but not the time of the processor."""

ASK_SYNTHETIC = """
import bench.synthetic as fleet
from gpufleet.engine.compile import story
from gpufleet.engine.policy import find_policy

story(find_policy("gpufleet"))
fleet.PODS = 20_000
stream = fleet.Stream(1000)
told = msgspec.to_builtins(stream.run())
took = []
for number in range(300):
    # Another shape each time: of a known one the verdict is known.
    shape = fleet.Shape(fleet.Resources(200_001 + number, fleet.GIBIBYTE), fleet.GpuRequest(8, 1000))
    came = fleet.PodAdded(fleet.Pod(fleet.PodUid(f"refused-{number}"), shape))
    step_s, said = stream.timed([came])
    began = time.perf_counter()
    words = [fleet.explain(one.verdict, shape) for one in said if isinstance(one, fleet.Unschedulable)]
    took.append(step_s + time.perf_counter() - began)
    assert len(words) == 1
told["verdict_seconds"] = min(took)
sys.stdout.write(msgspec.json.encode(told).decode())
"""
"""The synthetic fleet of ``bench.synthetic`` with a fifth of its work, and the least of 300 refusals."""


def synthetic(one: Checkout, _manifests: Path) -> Figures:
    """A synthetic fleet of a thousand nodes with churn."""
    printed, _ = one.run("-c", BY_CPU + ASK_SYNTHETIC)
    told: dict[str, float] = msgspec.json.decode(printed)
    return {
        "synthetic fleet of 1,000 nodes: a decision": told["seconds"] / told["decisions"],
        "synthetic fleet: the nodes are taken in": told["set_up_seconds"],
        "synthetic fleet: a shape never seen before": told["unseen_shape_seconds"],
        "synthetic fleet: a refusal with its words": told["verdict_seconds"],
        "synthetic fleet: a gang of a thousand is placed": told["gang_placed_seconds"],
        "synthetic fleet: a gang of a thousand is refused": told["gang_refused_seconds"],
        "synthetic fleet: peak memory (MiB)": told["peak_rss_mib"],
    }


def replay(one: Checkout, _manifests: Path) -> Figures:
    """The published replay, by the policy that is published and ours."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for policy in POLICIES:
            path = str(Path(folder, f"{policy}.json"))
            command = ("-m", "gpufleet", "replay", "--policy", policy, "--quiet", "--json", path)
            found[f"default replay, {policy}: the process"] = one.run(*command)[1]
    return found


ASK_QUEUES = """
from bench.queues import thousand_queues as queues

# Once before, so that no kernel is loaded while it is measured.
queues.measure(queues.Size(nodes=16, branches=2, pending=100, ending=(10,)))
measured = queues.measure(queues.Size(nodes=500, pending=20_000, ending=(1000, 100, 10)))
sys.stdout.write(msgspec.json.encode(measured).decode())
"""
"""A thousand queues, on a smaller fleet than that of ``bench.queues``."""


def queues(one: Checkout, _manifests: Path) -> Figures:
    """A thousand queues."""
    printed, _ = one.run("-c", BY_CPU + ASK_QUEUES)
    told: dict[str, Any] = msgspec.json.decode(printed)
    cycles = {
        f"a thousand queues: a cycle after {int(count):,} pods ended": took_s
        for count, took_s in told["cycle_s"].items()
    }
    return {
        **cycles,
        "a thousand queues: a cycle without change": told["idle_s"],
        "a thousand queues: pods are taken in": told["submit_s"],
        "a thousand queues: the fleet is filled": told["set_up_s"],
        "a thousand queues: peak memory (MiB)": told["peak_rss_mib"],
    }


ASK_DOCTOR = """
import re
from bench.doctor import doctor_figures

reading, _, judging, _ = doctor_figures()
checks = int(re.search(r"by (\\d+) checks", judging.name)[1])
sys.stdout.write(msgspec.json.encode((reading.value, judging.value / checks)).decode())
"""


def doctor(one: Checkout, _manifests: Path) -> Figures:
    """A diagnosis of 2,000 nodes and 16,000 pods; of checks there are ever more."""
    printed, _ = one.run("-c", BY_CPU + ASK_DOCTOR)
    reading_s, check_s = msgspec.json.decode(printed)
    return {
        "doctor: objects of a large cluster are read": reading_s,
        "doctor: a check judges them": check_s,
    }


def advice(one: Checkout, manifests: Path) -> Figures:
    """Commands that a person types."""
    commands: dict[str, tuple[str, ...]] = {
        "gpufleet --help": ("--help",),
        "gpufleet lint of the examples": ("lint", str(manifests)),
        "gpufleet fit of a model": ("fit", "meta-llama/Llama-3.1-8B"),
    }
    return {
        f"{name}: the process": one.run("-m", "gpufleet", *rest, may_find=True)[1]
        for name, rest in commands.items()
    }


PARTS: Mapping[str, Callable[[Checkout, Path], Figures]] = {
    "synthetic": synthetic,
    "replay": replay,
    "queues": queues,
    "doctor": doctor,
    "advice": advice,
}


class Compared(NamedTuple):
    """A figure on both sides, and its noise as a part of it."""

    name: str
    before: float
    after: float
    noise: float

    @property
    def is_slower(self) -> bool:
        """True if the difference is more than noise."""
        return self.after > self.before * (1 + max(self.noise, NOISE_LEAST))


def compared(rounds: list[tuple[Figures, Figures]]) -> Iterator[Compared]:
    """The figures that both sides have."""
    for name in rounds[0][0]:
        if name in rounds[0][1]:
            sides = [sorted(one[side][name] for one in rounds) for side in (0, 1)]
            noise = max(side[1] / side[0] - 1 if len(side) > 1 else 0.0 for side in sides)
            yield Compared(name, sides[0][0], sides[1][0], noise)


def table(found: list[Compared]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield "| figure | before | after | after / before | noise | |"
    yield "|---|---:|---:|---:|---:|---|"
    for one in found:
        ratio, verdict = one.after / one.before, "slower" if one.is_slower else ""
        yield (
            f"| {one.name} | {_words(one, one.before)} | {_words(one, one.after)} | {ratio:.2f} "
            f"| {one.noise:.0%} | {verdict} |"
        )


def _words(one: Compared, value: float) -> str:
    if "MiB" in one.name:
        return f"{value:.0f} MiB"
    return (
        f"{value:.3g} s"
        if value >= 1
        else f"{value * 1e3:.3g} ms"
        if value >= 1e-3
        else f"{value * 1e6:.3g} us"
    )


@click.command()
@click.argument("before", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("parts", nargs=-1, type=OneOf(tuple(PARTS)))
@click.option(
    "--rounds", type=Whole(1, 1_000), default=5, show_default=True, help="How often each side runs."
)
def main(before: Path, after: Path, parts: tuple[str, ...], rounds: int) -> None:
    """Measure the checkouts BEFORE and AFTER in turns, all PARTS or those named."""
    sides = (Checkout(before.resolve()), Checkout(after.resolve()))
    found: list[Compared] = []
    began = time.monotonic()
    for part in parts or tuple(PARTS):
        measured: list[tuple[Figures, Figures]] = []
        for number in range(rounds):
            say(f"{part}: round {number + 1} of {rounds}")
            old, new = (PARTS[part](side, sides[0].folder / SAME_MANIFESTS) for side in sides)
            measured.append((old, new))
        found += compared(measured)
    sys.stdout.write("\n".join(table(found)) + "\n")
    say(f"{machine()}; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.compare"))
