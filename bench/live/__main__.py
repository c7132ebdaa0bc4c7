"""Run the trials and publish: `make bench-live`, or a part of them by name.

Every round is printed when it ends and kept in build/bench/live-raw.json, so that a run that is cut
short has lost nothing.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from bench.figures import FOLDER, machine, publish
from bench.live import results, trials
from bench.live.arena import Arena, arena
from bench.live.contender import BOTH, GPUFLEET, Contender
from bench.live.objects import Workload
from bench.live.results import Raw
from gpufleet.cli.main import run_program
from gpufleet.cli.parameters import OneOf, Whole
from gpufleet.model.model_errors import InputError

GANG_SIZES = (1, 4, 100)
SIZES = {1_000: 3_000, 5_000: 10_000}
MEMORY_PODS = 20_000
SMALL_NODES = 500
GANG_MEMBERS = 512

PARTS = (
    "all",
    "burst",
    *(f"burst-{nodes}" for nodes in SIZES),
    *(f"burst-{nodes}-{size}" for nodes in SIZES for size in GANG_SIZES),
    "steady",
    "memory",
    "gang",
    "cannot-run",
)

Round = Callable[[Raw, Contender], msgspec.Struct]


def bursts(here: Arena, nodes: int, pods: int) -> dict[str, Round]:
    """Single pods and gangs at one size."""

    def of(workload: Workload) -> Round:
        def run(raw: Raw, who: Contender) -> msgspec.Struct:
            raw.bursts.append(trials.burst(here, who, nodes, workload))
            return raw.bursts[-1]

        return run

    return {f"burst-{nodes}-{size}": of(Workload(pods, size)) for size in GANG_SIZES}


def small(here: Arena) -> dict[str, Round]:
    """What is asked of a cluster of 500 nodes."""

    def gang(raw: Raw, who: Contender) -> msgspec.Struct:
        raw.waits.append(trials.large_gang(here, who, SMALL_NODES, GANG_MEMBERS))
        return raw.waits[-1]

    def refusal(raw: Raw, who: Contender) -> msgspec.Struct:
        raw.waits.append(trials.cannot_run(here, who, SMALL_NODES))
        return raw.waits[-1]

    return {"gang": gang, "cannot-run": refusal}


def steady(here: Arena, nodes: int) -> dict[str, Round]:
    """Arrivals at a steady rate."""

    def run(raw: Raw, who: Contender) -> msgspec.Struct:
        raw.latencies.append(trials.steady(here, who, nodes))
        return raw.latencies[-1]

    return {"steady": run}


def memory(here: Arena, nodes: int) -> dict[str, Round]:
    """Our peak with many pods; one round says it."""

    def run(raw: Raw, who: Contender) -> msgspec.Struct:
        raw.bursts.append(trials.burst(here, who, nodes, Workload(MEMORY_PODS)))
        return raw.bursts[-1]

    return {"memory": run}


def everything(raw: Raw, parts: tuple[str, ...], rounds: int) -> Iterator[Raw]:
    """Run what was asked for; what is known so far, after every round."""
    wanted = {1_000: ("burst-1000", "steady"), 5_000: ("burst-5000", "memory"), 500: ("gang", "cannot-run")}
    for nodes, names in wanted.items():
        if not rounds or not any(_asked(part, names) for part in parts):
            continue
        with arena(nodes) as here:
            for name, run in plan(here, nodes).items():
                if any(_asked(part, (name,)) for part in parts):
                    for who in turns(rounds, alone=name == "memory"):
                        _say(name, run(raw, who))
                        yield raw


def plan(here: Arena, nodes: int) -> dict[str, Round]:
    """The trials of one size, by name."""
    if nodes == SMALL_NODES:
        return small(here)
    trials_here = bursts(here, nodes, SIZES[nodes])
    return trials_here | (steady(here, nodes) if nodes == min(SIZES) else memory(here, nodes))


def turns(rounds: int, *, alone: bool) -> Iterator[Contender]:
    """Who runs when: who begins changes from round to round."""
    if alone:
        yield from (GPUFLEET,)[:rounds]
        return
    for number in range(rounds):
        yield from BOTH if number % 2 == 0 else reversed(BOTH)


def _asked(part: str, names: tuple[str, ...]) -> bool:
    """Whether a part that was asked for is one of these, holds one, or lies in one."""
    return part == "all" or any(
        part == name or name.startswith(f"{part}-") or part.startswith(f"{name}-") for name in names
    )


def _say(name: str, measured: msgspec.Struct) -> None:
    values = msgspec.structs.asdict(measured)
    values.pop("writes", None)
    shown = ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in values.items()
    )
    click.echo(f"{name}: {shown}", err=True)


@click.command()
@click.option("--rounds", type=Whole(0, 1_000), default=3, show_default=True)
@click.option("--add", is_flag=True, help="Add these rounds to those that live-raw.json has.")
@click.argument("parts", nargs=-1, type=OneOf(PARTS))
def main(rounds: int, add: bool, parts: tuple[str, ...]) -> None:
    """Measure PARTS: burst-1000, burst-5000, burst-1000-4 ..., steady, memory, gang, cannot-run; or all.

    With --add and --rounds 0 what is there is published again.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = FOLDER / "live-raw.json"
    raw = known_rounds(kept) if add else Raw()
    if rounds:
        raw.began.append(machine())
    for known in everything(raw, parts or ("all",), rounds):
        kept.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
    publish("live", results.figures(raw), [*(f"begun on {one}" for one in raw.began), *results.notes(raw)])


def known_rounds(kept: Path) -> Raw:
    """The rounds that were kept. Raises InputError where there are none."""
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Raw)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = "no rounds to add to" if isinstance(error, FileNotFoundError) else f"no rounds: {error}"
        raise InputError(
            problem, field="--add", value=str(kept), expected="a run without --add first"
        ) from error


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.live"))
