"""How the default policy does on work it was not built for: other lists, other fleets, other constants.

Of the published kinds of task list three ship; look-alikes of the others are made here by drawing the
default list anew, class by class, with a fixed seed: more CPU-only tasks, more shares, more tasks of
several GPUs, tasks that name models, and two regimes one after the other. Small sub-fleets run the
default list. gpufleet is judged against fgd, which is told the target workload beforehand; gpufleet
is told nothing. Then ``bench.constants`` moves each constant of the policy.

``python -m bench.lists [SEEDS [JOBS]]`` takes the number of seeds (three by default) and of processes.
"""

import csv
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import click

from bench import constants
from bench.figures import FOLDER, Figure, figure, publish
from gpufleet.cli.main import ExitCode, run_program
from gpufleet.cli.parameters import Whole
from gpufleet.replay.data_files import TASK_LIST_NAMES, shipped_node_list, shipped_task_list
from gpufleet.replay.results import RunResult
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import sweep

FIRST_SEED = 42
SEEDS = 3
JOBS = 2
LOADS = ("100", "130")
POLICIES = ("fgd", "gpufleet")
LARGE = ("2", "4", "8")
LISTS = FOLDER / "lists"
COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
AHEAD_POINTS = 0.5

CPU_SHARES = {"cpu050": 0.050, "cpu100": 0.100, "cpu200": 0.200, "cpu250": 0.250}
SHARED_DEMAND = {"gpushare60": 0.60, "gpushare80": 0.80, "gpushare100": 1.0}
NAMING = {"gpuspec10": 0.10, "gpuspec20": 0.20, "gpuspec25": 0.25, "gpuspec33": 0.33}
LARGE_DEMAND = {"multigpu30": 0.30, "multigpu40": 0.40, "multigpu50": 0.50}

# what tasks name, and how often; about as the models stand in the fleet, newer ones more often
NAMED = {"G2|G3": 30, "T4": 28, "G2": 18, "V100M16|V100M32": 14, "P100": 6, "V100M32": 4}
SUB_FLEETS = {"60 nodes": 60, "200 nodes": 200}
REGIME_LOAD = 1.29
SEEDS_OF_CONSTANTS = range(FIRST_SEED, FIRST_SEED + 2)
NAMING_MOST = "gpuspec33"

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """A CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A CSV file of these columns; its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def write_tasks(name: str, rows: Sequence[Row]) -> str:
    """A task list, named anew in its order."""
    named = [{**row, "name": f"task-{number:05}"} for number, row in enumerate(rows)]
    return write(LISTS / f"{name}.csv", COLUMNS, named)


def task_class(row: Row) -> str:
    """cpu, share, or the number of whole GPUs."""
    if row["num_gpu"] == "0":
        return "cpu"
    return "share" if row["gpu_milli"] != "1000" else row["num_gpu"]


def demand(row: Row) -> int:
    """Thousandths of a GPU asked for."""
    return int(row["num_gpu"]) * int(row["gpu_milli"] or 0)


def holds(host: Row, task: Row) -> bool:
    """True if an idle node is large enough for a task."""
    amounts = (("cpu_milli", "cpu_milli"), ("memory_mib", "memory_mib"), ("gpu", "num_gpu"))
    return all(int(host[offered]) >= int(task[asked]) for offered, asked in amounts)


class Resampler:
    """The default list, drawn anew class by class."""

    def __init__(self) -> None:
        self.tasks = rows_of(shipped_task_list())
        self.by_class: dict[str, list[Row]] = {}
        for row in self.tasks:
            self.by_class.setdefault(task_class(row), []).append(row)
        self.counts = Counter({kind: len(rows) for kind, rows in self.by_class.items()})
        self.asked = {kind: sum(map(demand, rows)) for kind, rows in self.by_class.items()}

    def drawn(self, factors: dict[str, float]) -> list[Row]:
        """Every class as often as the factor says: each task as evenly as possible, all shuffled."""
        source = random.Random(1)
        rows: list[Row] = []
        for kind in sorted(self.by_class):
            pool = self.by_class[kind]
            rounds, rest = divmod(round(factors.get(kind, 1.0) * len(pool)), len(pool))
            rows += pool * rounds + source.sample(pool, rest)
        source.shuffle(rows)
        return rows

    def cpu(self, share: float) -> list[Row]:
        """This share of the tasks needs no GPU."""
        total = len(self.tasks)
        others = (1 - share) * total / (total - self.counts["cpu"])
        factors = dict.fromkeys(self.by_class, others)
        return self.drawn({**factors, "cpu": share * total / self.counts["cpu"]})

    def gpushare(self, share: float) -> list[Row]:
        """This share of the GPU demand is for parts of GPUs, with as many GPU tasks as before."""
        total = sum(self.asked.values())
        of_shares = share * total / self.asked["share"]
        of_whole = (1 - share) * total / (total - self.asked["share"])
        gpu_tasks = len(self.tasks) - self.counts["cpu"]
        whole_tasks = gpu_tasks - self.counts["share"]
        scale = gpu_tasks / (of_shares * self.counts["share"] + of_whole * whole_tasks)
        factors = dict.fromkeys(self.by_class, of_whole * scale)
        return self.drawn({**factors, "cpu": 1.0, "share": of_shares * scale})

    def multigpu(self, share: float) -> list[Row]:
        """This share of the GPU demand is for tasks of several GPUs."""
        large = sum(self.asked[kind] for kind in LARGE)
        rest = sum(self.asked.values()) - large
        return self.drawn(dict.fromkeys(LARGE, share / (1 - share) * rest / large))

    def gpuspec(self, share: float) -> list[Row]:
        """This share of the GPU tasks names models of which some node is large enough."""
        source = random.Random(2)
        hosts = rows_of(shipped_node_list())
        rows = [dict(row) for row in self.tasks]
        with_gpu = [row for row in rows if row["num_gpu"] != "0"]
        for row in source.sample(with_gpu, round(share * len(with_gpu))):
            fitting = [
                spec
                for spec in NAMED
                if any(host["model"] in spec.split("|") and holds(host, row) for host in hosts)
            ]
            [row["gpu_spec"]] = source.choices(fitting, [NAMED[spec] for spec in fitting])
        return rows

    def two_regimes(self, seed: int, capacity_milli: int) -> list[Row]:
        """Half a fleet of shares and single GPUs, then many tasks of several GPUs, until it is full."""
        source = random.Random(seed)
        first = [row for row in self.gpushare(0.60) if task_class(row) not in LARGE]
        second = self.multigpu(0.20)
        rows: list[Row] = []
        asked = 0
        for pool, until in ((first, 0.5), (second, REGIME_LOAD)):
            while asked < until * capacity_milli:
                rows.append(source.choice(pool))
                asked += demand(rows[-1])
        return rows


def look_alikes() -> dict[str, str]:
    """Every look-alike as a file, by its name."""
    draw = Resampler()
    files = {name: write_tasks(name, draw.cpu(share)) for name, share in CPU_SHARES.items()}
    files |= {name: write_tasks(name, draw.gpushare(share)) for name, share in SHARED_DEMAND.items()}
    files |= {name: write_tasks(name, draw.gpuspec(share)) for name, share in NAMING.items()}
    files |= {name: write_tasks(name, draw.multigpu(share)) for name, share in LARGE_DEMAND.items()}
    return files


def requests(seeds: range) -> list[tuple[str, RunRequest]]:
    """Every run: (name of the list, request)."""
    nodes = str(shipped_node_list())
    fleet = rows_of(shipped_node_list())
    capacity_milli = 1000 * sum(int(row["gpu"]) for row in fleet)
    draw = Resampler()
    runs = [
        (name, RunRequest(nodes, file, policy, seed))
        for name, file in look_alikes().items()
        for policy in POLICIES
        for seed in seeds
    ]
    for seed in seeds:
        file = write_tasks(f"regimes-{seed}", draw.two_regimes(seed, capacity_milli))
        runs += [
            ("two regimes", RunRequest(nodes, file, policy, seed, submitted_order=True))
            for policy in POLICIES
        ]
    for name, count in SUB_FLEETS.items():
        for seed in seeds:
            part = random.Random(seed).sample(fleet, count)
            file = write(LISTS / f"nodes-{count}-{seed}.csv", list(fleet[0]), part)
            runs += [(name, RunRequest(file, str(shipped_task_list()), policy, seed)) for policy in POLICIES]
    return runs


def accepted(runs: Sequence[RunResult], kind: str) -> tuple[int, int]:
    """Tasks of a class that arrived and that were accepted up to load 100, over all runs."""
    counts = [run.accepted_by_class[kind]["100"] for run in runs if kind in run.accepted_by_class]
    return sum(count.arrived for count in counts), sum(count.accepted for count in counts)


def judged(name: str, theirs: Sequence[RunResult], ours: Sequence[RunResult]) -> Iterator[Figure]:
    """How far gpufleet is ahead on one list, and who pays for it."""
    for load in LOADS:
        fgd, gpufleet = (fmean(run.alloc_pct[load] for run in runs) for runs in (theirs, ours))
        title = f"{name}: ahead of fgd at {load} ({fgd:.2f}, {gpufleet:.2f})"
        yield figure(title, gpufleet - fgd, "points", "higher", AHEAD_POINTS)
    refusals = [fmean(run.first_refusal_load or 130.0 for run in runs) for runs in (theirs, ours)]
    title = f"{name}: first refusal later ({refusals[0]:.1f}, {refusals[1]:.1f})"
    yield figure(title, refusals[1] - refusals[0], "% load", "higher")
    for kind in LARGE:
        arrived, by_fgd = accepted(theirs, kind)
        _, by_gpufleet = accepted(ours, kind)
        if arrived:
            title = f"{name}: {kind}-GPU tasks accepted ({by_fgd}, {by_gpufleet} of {arrived})"
            yield figure(title, 100 * (by_gpufleet - by_fgd) / arrived, "points", "higher")


class Quiet:
    """Tells nothing until every twentieth run is done."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0

    def arrived(self, request: RunRequest, tasks: int) -> None:
        """Nothing to say."""

    def finished(self, request: RunRequest) -> None:
        """One more run is done."""
        self.done += 1
        if self.done % 20 == 0:
            print(f"{self.done} of {self.total} runs, last {request.title}", file=sys.stderr)


def moved_constants(jobs: int) -> list[Figure]:
    """What each constant of the policy is worth."""
    print("moving the constants ...", file=sys.stderr)
    nodes = str(shipped_node_list())
    files = {name: str(shipped_task_list(name)) for name in TASK_LIST_NAMES}
    shipped, naming = (
        {
            name: [RunRequest(nodes, file, "gpufleet", seed) for seed in SEEDS_OF_CONSTANTS]
            for name, file in named.items()
        }
        for named in (files, {NAMING_MOST: str(LISTS / f"{NAMING_MOST}.csv")})
    )
    return constants.figures(shipped, naming, jobs)


@click.command()
@click.argument("seeds", type=Whole(1, 1_000), default=SEEDS)
@click.argument("jobs", type=Whole(1, 1_024), default=JOBS)
def main(seeds: int, jobs: int) -> int:
    """Run every list and publish."""
    wanted = requests(range(FIRST_SEED, FIRST_SEED + seeds))
    outcome = sweep([request for _, request in wanted], jobs, Quiet(len(wanted)))
    if outcome.interrupted:
        return ExitCode.INTERRUPTED
    by_list: dict[str, dict[str, list[RunResult]]] = {}
    for (name, request), run in zip(wanted, outcome.runs(), strict=True):
        by_list.setdefault(name, {}).setdefault(request.policy, []).append(run)
    figures = [one for name, runs in by_list.items() for one in judged(name, runs["fgd"], runs["gpufleet"])]
    publish("lists", figures, ["in brackets: fgd, gpufleet"])
    publish("constants", moved_constants(jobs))
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.lists"))
