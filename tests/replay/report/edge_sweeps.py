"""Results at the edges: what a report must survive and still tell truly."""

from collections.abc import Callable

import msgspec

from gpufleet.replay.report import ReportFiles
from gpufleet.replay.results import SkippedRow, SweepResult
from tests.replay.report.sample_sweeps import MORE_POLICIES, sample_sweep

Written = Callable[[str], ReportFiles]
"""The files of the report of one of ``SWEEPS``, by its name."""

HOSTILE_NAMES = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    "<img src=x onerror='window.hacked = 3'>",
    "=cmd|' /C calc'!A0",
    "a.b[c] \\ 'single' \"double\"",
    "a name that goes on " * 8,
    "${datum.x} {{ 7 * 7 }}",
    "var(--no-such)",
)


def hostile() -> SweepResult:
    """Every text that comes from input tries to be markup."""
    tag = HOSTILE_NAMES[2]
    sweep = sample_sweep(HOSTILE_NAMES, (1, 2))
    first, *others = sweep.runs
    assert first.fleet_at_end is not None
    nodes = [msgspec.structs.replace(one, name=tag, node_type=tag) for one in first.fleet_at_end[:40]]
    types = [msgspec.structs.replace(one, node_type=tag) for one in first.idle_by_node_type[:1]]
    named = msgspec.structs.replace(
        first,
        fleet_at_end=nodes,
        idle_by_node_type=types,
        failures_by_reason={tag: 1},
    )
    return msgspec.structs.replace(
        sweep,
        nodes_file=tag,
        pods_file=tag,
        command=f"gpufleet replay {tag}",
        skipped_rows=[SkippedRow(tag, 3, tag)],
        complete=False,
        missing=[tag],
        runs=[named, *others],
    )


def interrupted() -> SweepResult:
    """Ctrl-C after the first runs."""
    sweep = sample_sweep(("fgd", "best-fit"), (42, 43))
    return msgspec.structs.replace(sweep, complete=False, missing=["random, seed 42", "random, seed 43"])


def nothing_finished() -> SweepResult:
    """Ctrl-C before any run was done."""
    return msgspec.structs.replace(interrupted(), runs=[], policies=[])


def nothing_refused() -> SweepResult:
    """A cluster that was never full."""
    sweep = sample_sweep(("fgd", "best-fit"), (42, 43))
    return msgspec.structs.replace(
        sweep,
        runs=[msgspec.structs.replace(run, first_refusal_load=None, failed=0) for run in sweep.runs],
        policies=[msgspec.structs.replace(one, first_refusal_load=None) for one in sweep.policies],
    )


def empty_timeline() -> SweepResult:
    """A replay in time in which no task ever came."""
    sweep = sample_sweep(("fgd",), (42,), "timeline")
    (run,) = sweep.runs
    assert run.timeline is not None
    none_started = msgspec.structs.replace(
        run.timeline.waits_by_class["all"],
        started=0,
        never_started=0,
        mean_s=None,
        p50_s=None,
        p90_s=None,
        p99_s=None,
        max_s=None,
    )
    timeline = msgspec.structs.replace(
        run.timeline,
        waits_by_class=dict.fromkeys(run.timeline.waits_by_class, none_started),
        time_s=[],
        queue_length=[],
        gpu_alloc_pct=[],
    )
    return msgspec.structs.replace(sweep, runs=[msgspec.structs.replace(run, timeline=timeline)])


SWEEPS = {
    "usual": sample_sweep(),
    "one": sample_sweep(("fgd",), (42,)),
    "many": sample_sweep(MORE_POLICIES, tuple(range(42, 52))),
    "timeline": sample_sweep(mode="timeline"),
    "hostile": hostile(),
    "interrupted": interrupted(),
    "nothing finished": nothing_finished(),
    "nothing refused": nothing_refused(),
    "empty timeline": empty_timeline(),
}
