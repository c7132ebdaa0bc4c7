"""What a replay found, as values: the JSON that ``gpufleet replay --json`` writes and the report reads.

The layout is versioned by ``SCHEMA`` and described for users in ``docs/replay-json.md``.
``sweep`` makes these values, ``report`` draws them.
"""

import msgspec

SCHEMA = "gpufleet.io/replay/v1"
# Loads at which the report has figures: denser where the cluster gets full.
LOAD_POINTS_PCT = (50, 70, 80, 90, 95, 100, 110, 120, 130)
CLASS_LOAD_POINTS_PCT = (100, 130)
TASK_CLASSES = ("cpu", "share", "1", "2", "4", "8")


class ClassCount(msgspec.Struct, frozen=True):
    """Tasks of one class up to some load: how many arrived and how many were accepted."""

    arrived: int
    accepted: int
    accepted_pct: float | None
    """None where none arrived."""


class Curve(msgspec.Struct, frozen=True):
    """One run, point by point over arrived load in whole percent; lists of equal length.

    A point is the mean over the arrivals with loads that round to it. ``alloc_pct`` and
    ``frag_pct_of_cluster`` are percent of the GPUs of the cluster, ``frag_pct_of_idle`` percent of those not
    allocated.
    """

    load_pct: list[int]
    alloc_pct: list[float]
    frag_pct_of_cluster: list[float]
    frag_pct_of_idle: list[float]


class NodeTypeIdle(msgspec.Struct, frozen=True):
    """Idle GPUs of one type of node at the end of a run, split by what keeps them idle.

    ``idle_by_reason`` counts GPUs (fractions of them too) under "cpu", "memory",
    "cpu and memory", "scraps" (too little left of the GPU) and "usable"; each idle part is split over the
    typical GPU requests by how often they come.
    """

    node_type: str
    nodes: int
    gpus: int
    idle_gpus: float
    idle_by_reason: dict[str, float]


class NodePicture(msgspec.Struct, frozen=True):
    """One node at the end of a run: the used milli of each GPU and the used percent of CPU."""

    name: str
    node_type: str
    gpu_used_milli: list[int]
    cpu_used_pct: float


class Waits(msgspec.Struct, frozen=True):
    """Waiting times in seconds of the tasks of one class that started, and those that never did."""

    started: int
    never_started: int
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    max_s: float | None


class BucketCost(msgspec.Struct, frozen=True):
    """What GPUs cost while they were for one thing, in millionths of the currency.

    ``bucket`` is "unmeasured" (held by tasks), "stranded" (free, but typical requests cannot use it, for a
    ``reason`` of NodeTypeIdle), "idle-free", or "host" (CPUs and memory of nodes with GPUs). The parts of
    ``series_micro``, one for each interval, add up to ``amount_micro``.
    """

    bucket: str
    reason: str
    amount_micro: int
    series_micro: list[int]


class FleetCost(msgspec.Struct, frozen=True):
    """What the nodes with GPUs cost from the first arrival to the last event; buckets add up to it.

    ``unpriced_gpus`` are those of nodes without a price, which are in no amount.
    """

    currency: str
    amount_micro: int
    unpriced_gpus: int
    buckets: list[BucketCost]


class Timeline(msgspec.Struct, frozen=True):
    """Timeline mode: waits by class ("all" and the task classes) and the fleet over time.

    The series hold at most 500 points, each the time-weighted mean over its interval. ``evictions``
    counts the times that a task had to end for one of higher priority.
    """

    waits_by_class: dict[str, Waits]
    time_s: list[float]
    queue_length: list[float]
    gpu_alloc_pct: list[float]
    mean_gpu_alloc_pct: float
    makespan_s: float
    evictions: int = 0
    cost: FleetCost | None = None
    """Only where prices were given."""


class RunResult(msgspec.Struct, frozen=True):
    """One run: one policy on one seed."""

    policy: str
    seed: int
    arrived: int
    placed: int
    failed: int
    gpus_total: int
    first_refusal_load: float | None
    """Arrived load in percent when the first task was refused; None if none was."""
    accepted_by_class: dict[str, dict[str, ClassCount]]
    """Task class, then load ("100", "130")."""
    alloc_pct: dict[str, float]
    frag_pct_of_cluster: dict[str, float]
    failures_by_reason: dict[str, int]
    decision_seconds: float
    wall_seconds: float
    peak_rss_mib: float
    curve: Curve
    idle_by_node_type: list[NodeTypeIdle]
    fleet_at_end: list[NodePicture] | None = None
    """Only for the first seed of each policy."""
    timeline: Timeline | None = None


class MeanDeviation(msgspec.Struct, frozen=True):
    """Mean and sample standard deviation (n - 1) over seeds; deviation None for a single seed."""

    mean: float
    deviation: float | None
    runs: int


class PolicySummary(msgspec.Struct, frozen=True):
    """One policy over its seeds."""

    policy: str
    seeds: list[int]
    alloc_pct: dict[str, MeanDeviation]
    frag_pct_of_cluster: dict[str, MeanDeviation]
    accepted_pct_by_class: dict[str, dict[str, MeanDeviation]]
    first_refusal_load: MeanDeviation | None
    decision_seconds: MeanDeviation


class SkippedRow(msgspec.Struct, frozen=True):
    """A row of an input file that was left out, and why."""

    file: str
    row: int
    problem: str


class SweepResult(msgspec.Struct, frozen=True):
    """A whole ``gpufleet replay``: how it was run, every run, every policy's summary."""

    schema: str
    gpufleet_version: str
    command: str
    mode: str
    nodes_file: str
    pods_file: str
    nodes: int
    gpus: int
    tasks: int
    load: float
    complete: bool
    """False if it was interrupted; ``missing`` then names the runs that are not here."""
    missing: list[str]
    skipped_rows: list[SkippedRow]
    runs: list[RunResult]
    policies: list[PolicySummary]
    order: str = "shuffled"
    """Of arrivals: "shuffled", "submitted" (as listed, clones behind), "fixed" (as listed, nothing
    added) or "recorded" (by their times)."""
    target_file: str | None = None
    """With a fixed order, the list from which the target workload was taken."""
