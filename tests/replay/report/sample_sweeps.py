"""Results of replays as they could be, from a seed: what the tests of the report draw.

The fleet has the make-up of the public trace, and the curves its shape: policies run together
until the cluster is nearly full and part there. The figures mean nothing.
"""

import random
from collections.abc import Sequence
from statistics import fmean, stdev

from gpufleet.replay.results import (
    CLASS_LOAD_POINTS_PCT,
    LOAD_POINTS_PCT,
    SCHEMA,
    TASK_CLASSES,
    BucketCost,
    ClassCount,
    Curve,
    FleetCost,
    MeanDeviation,
    NodePicture,
    NodeTypeIdle,
    PolicySummary,
    RunResult,
    SweepResult,
    Timeline,
    Waits,
)

POLICIES = ("fgd", "best-fit", "packing", "clustering", "dot-product", "random")
MORE_POLICIES = (*POLICIES, "balanced-spread", "price-of-remainder", "lean", "greedy")
SEEDS = (42, 43, 44)
NODE_TYPES = (
    ("G2 x 8", 549, 8),
    ("T4 x 2", 421, 2),
    ("G3 x 8", 39, 8),
    ("P100 x 2", 97, 2),
    ("P100 x 1", 24, 1),
    ("V100M32 x 4", 51, 4),
    ("V100M16 x 8", 24, 8),
    ("V100M16 x 4", 3, 4),
    ("A10 x 2", 1, 2),
)
REASON_SHARES = {"cpu": 0.3, "memory": 0.06, "cpu and memory": 0.04, "scraps": 0.52, "usable": 0.08}
CLASS_ACCEPTANCE_PCT = {"cpu": 99.5, "share": 97.0, "1": 94.0, "2": 88.0, "4": 80.0, "8": 66.0}
GPUS = 6212


def _ceiling_pct(policy_index: int, chance: random.Random) -> float:
    return 95.4 - 1.3 * policy_index + chance.gauss(0, 0.15)


def _curve(ceiling_pct: float, last_load_pct: int, chance: random.Random) -> Curve:
    loads = list(range(last_load_pct + 1))
    bend = 9.0
    alloc = [min(load, ceiling_pct - bend * 2.718 ** ((80 - load) / bend) * 0.8) for load in loads]
    alloc = [max(load * 0.99 if load < 80 else value, 0.0) for load, value in zip(loads, alloc, strict=True)]
    idle = [100 - value for value in alloc]
    of_idle = [min(99.0, 14 + 86 * (load / 104) ** 5 + chance.gauss(0, 0.3)) for load in loads]
    return Curve(
        load_pct=loads,
        alloc_pct=alloc,
        frag_pct_of_cluster=[left * share / 100 for left, share in zip(idle, of_idle, strict=True)],
        frag_pct_of_idle=of_idle,
    )


def _classes(policy_index: int, chance: random.Random) -> dict[str, dict[str, ClassCount]]:
    counts: dict[str, dict[str, ClassCount]] = {}
    for number, task_class in enumerate(TASK_CLASSES):
        arrived = 4000 // (number * number + 1)
        counts[task_class] = {}
        for load in CLASS_LOAD_POINTS_PCT:
            share = CLASS_ACCEPTANCE_PCT[task_class] - policy_index * 1.5 - (load - 100) * 0.5
            accepted = round(arrived * max(min(share + chance.gauss(0, 0.5), 100), 0) / 100)
            counts[task_class][str(load)] = ClassCount(arrived, accepted, 100 * accepted / arrived)
    return counts


def _fleet(idle_pct: float, chance: random.Random) -> list[NodePicture]:
    nodes: list[NodePicture] = []
    for node_type, how_many, gpus in NODE_TYPES:
        for _ in range(how_many):
            used = [
                1000 if chance.random() * 100 > idle_pct * 2.5 else chance.choice((0, 0, 350, 500, 810))
                for _ in range(gpus)
            ]
            cpu_pct = min(100.0, chance.uniform(60, 108))
            nodes.append(NodePicture(f"openb-node-{len(nodes):04}", node_type, used, cpu_pct))
    return nodes


def _idle(idle_pct: float, chance: random.Random) -> list[NodeTypeIdle]:
    found = []
    for node_type, how_many, gpus in NODE_TYPES:
        idle = how_many * gpus * idle_pct / 100 * chance.uniform(0.8, 1.2)
        by_reason = {reason: idle * share for reason, share in REASON_SHARES.items()}
        found.append(NodeTypeIdle(node_type, how_many, how_many * gpus, idle, by_reason))
    return found


def _waits(scale_s: float, chance: random.Random) -> Waits:
    waits = sorted(chance.expovariate(1 / scale_s) - scale_s * 0.5 for _ in range(500))
    waits = [max(wait, 0.0) for wait in waits]
    return Waits(500, 3, fmean(waits), waits[250], waits[450], waits[495], waits[-1])


def _timeline(policy_index: int, chance: random.Random) -> Timeline:
    times = [index * 2600.0 for index in range(500)]
    queue, alloc = 0.0, 0.0
    queues, allocs = [], []
    for index in range(500):
        queue = max(0.0, queue + chance.gauss(0.4 if index < 250 else -0.8, 4 + policy_index))
        alloc = min(100.0, max(0.0, alloc + chance.gauss(1.0 if index < 120 else -0.05, 1.5)))
        queues.append(queue)
        allocs.append(alloc)
    waits = {
        name: _waits(900.0 * (number + 1) ** 2, chance) for number, name in enumerate(("all", *TASK_CLASSES))
    }
    return Timeline(
        waits, times, queues, allocs, fmean(allocs), times[-1] + 5000.0, cost=_cost(allocs, policy_index)
    )


def _cost(allocs: list[float], policy_index: int) -> FleetCost:
    """A thousand euros for each interval, half of what is not held stranded."""
    held = [round(10_000_000 * alloc) for alloc in allocs]
    stranded = [(1_000_000_000 - part) // (2 + policy_index) for part in held]
    free = [1_000_000_000 - part - lost for part, lost in zip(held, stranded, strict=True)]
    series = {
        ("idle-free", ""): free,
        ("stranded", "cpu"): stranded,
        ("unmeasured", ""): held,
    }
    buckets = [BucketCost(*key, sum(parts), parts) for key, parts in series.items()]
    return FleetCost("EUR", sum(one.amount_micro for one in buckets), 12, buckets)


def _run(policy: str, policy_index: int, seed: int, mode: str, *, keeps_nodes: bool) -> RunResult:
    chance = random.Random(f"{policy} {seed}")
    is_timeline = mode == "timeline"
    ceiling_pct = _ceiling_pct(policy_index, chance)
    curve = Curve([], [], [], []) if is_timeline else _curve(ceiling_pct, 130, chance)
    points = [] if is_timeline else list(LOAD_POINTS_PCT)
    return RunResult(
        policy=policy,
        seed=seed,
        arrived=10_866,
        placed=9_950 - 80 * policy_index,
        failed=916 + 80 * policy_index,
        gpus_total=GPUS,
        first_refusal_load=None if is_timeline else 84.0 - policy_index + chance.random(),
        accepted_by_class={} if is_timeline else _classes(policy_index, chance),
        alloc_pct={str(load): curve.alloc_pct[load] for load in points},
        frag_pct_of_cluster={str(load): curve.frag_pct_of_cluster[load] for load in points},
        failures_by_reason={"gpu": 700, "cpu": 200, "memory": 16},
        decision_seconds=0.31 + chance.random() * 0.1,
        wall_seconds=0.9 + chance.random() * 0.1,
        peak_rss_mib=412.0,
        curve=curve,
        idle_by_node_type=[] if is_timeline else _idle(100 - ceiling_pct, chance),
        fleet_at_end=_fleet(100 - ceiling_pct, chance) if keeps_nodes and not is_timeline else None,
        timeline=_timeline(policy_index, chance) if is_timeline else None,
    )


def mean_deviation(values: Sequence[float]) -> MeanDeviation:
    """Mean and sample deviation, as the sweep's summary has them."""
    return MeanDeviation(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _summary(policy: str, runs: Sequence[RunResult]) -> PolicySummary:
    loads = runs[0].alloc_pct
    refusals = [run.first_refusal_load for run in runs if run.first_refusal_load is not None]
    accepted: dict[str, dict[str, MeanDeviation]] = {}
    for task_class, by_load in runs[0].accepted_by_class.items():
        accepted[task_class] = {}
        for load in by_load:
            counts = [run.accepted_by_class[task_class][load].accepted_pct for run in runs]
            known = [count for count in counts if count is not None]
            if known:
                accepted[task_class][load] = mean_deviation(known)
    return PolicySummary(
        policy=policy,
        seeds=[run.seed for run in runs],
        alloc_pct={load: mean_deviation([run.alloc_pct[load] for run in runs]) for load in loads},
        frag_pct_of_cluster={
            load: mean_deviation([run.frag_pct_of_cluster[load] for run in runs]) for load in loads
        },
        accepted_pct_by_class=accepted,
        first_refusal_load=mean_deviation(refusals) if refusals else None,
        decision_seconds=mean_deviation([run.decision_seconds for run in runs]),
    )


def sample_sweep(
    policies: Sequence[str] = POLICIES, seeds: Sequence[int] = SEEDS, mode: str = "saturate"
) -> SweepResult:
    """A finished sweep of every policy on every seed."""
    runs = [
        _run(policy, index, seed, mode, keeps_nodes=seed == seeds[0])
        for index, policy in enumerate(policies)
        for seed in seeds
    ]
    return SweepResult(
        schema=SCHEMA,
        gpufleet_version="0.1.0",
        command=f"gpufleet replay --seeds {len(seeds)} --out report",
        mode=mode,
        nodes_file="data/openb/openb_node_list_gpu_node.csv",
        pods_file="data/openb/openb_pod_list_default.csv",
        nodes=1213,
        gpus=GPUS,
        tasks=8152,
        load=1.3,
        complete=True,
        missing=[],
        skipped_rows=[],
        runs=runs,
        policies=[_summary(policy, [run for run in runs if run.policy == policy]) for policy in policies],
    )
