"""One run of a replay: from a request to a result, in this process.

``sweep`` makes the requests and runs them side by side. The trace is read once a process, however
many runs it does.
"""

import functools
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict

import msgspec

from gpufleet.engine.compile import story_of_gangs, story_of_pods
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import BY_PRIORITY, BY_QUEUES
from gpufleet.files.atomic_write import atomic_write
from gpufleet.model.node import Node
from gpufleet.replay.arrivals import ArrivalUnit, gpu_capacity_milli, ranked, saturating, source_of, units_of
from gpufleet.replay.cost_meter import CostMeter
from gpufleet.replay.csv_export import Placement, write_placements
from gpufleet.replay.fragmentation_meter import FragmentationMeter
from gpufleet.replay.idle import FleetView, typical_gpu_shapes
from gpufleet.replay.log_file import log_file
from gpufleet.replay.measured_engine import LineSink, MeasuredEngine
from gpufleet.replay.peak_memory import forget_peak, peak_rss_mib
from gpufleet.replay.results import Curve, NodePicture, NodeTypeIdle, RunResult
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.saturate import SaturateRun
from gpufleet.replay.tally import Tally, at_load_points
from gpufleet.replay.timeline import TimelineRun
from gpufleet.replay.trace import Trace, read_trace
from gpufleet.replay.typical import typical_workload

EMPTY_CURVE = Curve([], [], [], [])
Progress = Callable[[int], None]


@functools.lru_cache(maxsize=4)
def trace_of(nodes_path: str, pods_path: str, skip_bad_rows_pct: float) -> Trace:
    """The trace of these files, read once a process."""
    return read_trace(nodes_path, pods_path, skip_bad_rows_pct=skip_bad_rows_pct)


@functools.cache
def load_kernels(policy: str, *, gangs: bool) -> None:
    """Load the compiled kernels that a run needs, once a process, so that no decision is told to have
    taken as long.
    """
    engine, _ = story_of_pods(find_policy(policy))
    if gangs:
        story_of_gangs(engine)


def run(request: RunRequest, progress: Progress | None = None) -> RunResult:
    """Do one run; ``progress`` hears the number of tasks that have arrived, now and then."""
    trace = trace_of(request.nodes_path, request.pods_path, request.skip_bad_rows_pct)
    load_kernels(request.policy, gangs=bool(trace.gangs))
    started = time.perf_counter()
    forget_peak()
    with ExitStack() as files:
        log = None
        if request.log_path is not None:
            log = files.enter_context(log_file(request.log_path))
        setting = Setting(request, trace, log)
        result = setting.timeline(progress) if request.mode == "timeline" else setting.saturate(progress)
        if request.placements_path is not None:
            write_placements(files.enter_context(atomic_write(request.placements_path)), setting.placements)
    return msgspec.structs.replace(
        result, wall_seconds=round(time.perf_counter() - started, 6), peak_rss_mib=peak_rss_mib()
    )


def victims_of(request: RunRequest) -> str:
    """The search for victims. Under the published protocol what is placed stays."""
    may_evict = request.mode == "timeline" and request.preempt_by_priority
    return BY_PRIORITY if may_evict else BY_QUEUES


class EndOfRun(TypedDict):
    """The fields of a result that are read from the engine at the end."""

    decision_seconds: float
    wall_seconds: float
    peak_rss_mib: float
    idle_by_node_type: list[NodeTypeIdle]
    fleet_at_end: list[NodePicture] | None


class Setting:
    """The engine with the fleet of one request, and what is read from it at the end."""

    def __init__(self, request: RunRequest, trace: Trace, log: LineSink | None) -> None:
        self.request = request
        self.trace = trace
        self.gpus = gpu_capacity_milli(trace.nodes) // 1000
        self.placements: list[Placement] = []
        self.source = source_of(request.seed)
        self.units, nodes = self._arrivals()
        self.workload = typical_workload(trace.tasks)
        self.measured = MeasuredEngine(find_policy(request.policy), request.seed, log, victims_of(request))
        self.measured.set_up(nodes, self.workload)

    def _arrivals(self) -> tuple[list[ArrivalUnit], list[Node]]:
        """What arrives in which order, and the nodes in the order of their rank."""
        request, nodes = self.request, list(self.trace.nodes)
        if request.arrivals_path is not None:
            given = trace_of(request.nodes_path, request.arrivals_path, request.skip_bad_rows_pct)
            return units_of(given), nodes
        if request.mode == "timeline":
            return [], ranked(nodes, self.source)
        units = saturating(
            units_of(self.trace),
            gpu_capacity_milli(nodes),
            request.load,
            self.source,
            shuffled=not request.submitted_order,
        )
        return units, ranked(nodes, self.source)

    def saturate(self, progress: Progress | None) -> RunResult:
        """Arrivals only, placed or failed at once."""
        meter = FragmentationMeter(self.measured.engine, self.workload)
        until_pct = 0 if self.request.arrivals_path is not None else round(100 * self.request.load)
        tally = Tally(self.gpus, meter.weight, until_pct)
        saturation = SaturateRun(self.measured, meter, tally)
        saturation.run(self.units, progress)
        self.placements = saturation.placements
        curve, reached_pct = tally.curve(), tally.reached_pct()
        return RunResult(
            policy=self.request.policy,
            seed=self.request.seed,
            arrived=tally.arrived,
            placed=tally.placed,
            failed=tally.arrived - tally.placed,
            gpus_total=self.gpus,
            first_refusal_load=tally.first_refusal_load(),
            accepted_by_class=tally.accepted_by_class(),
            alloc_pct=at_load_points(curve, curve.alloc_pct, reached_pct),
            frag_pct_of_cluster=at_load_points(curve, curve.frag_pct_of_cluster, reached_pct),
            failures_by_reason=dict(tally.failures.most_common()),
            curve=curve,
            **self._at_the_end(),
        )

    def timeline(self, progress: Progress | None) -> RunResult:
        """The trace in its own time."""
        meter = None
        if self.request.prices is not None:
            requests = typical_gpu_shapes(self.trace.tasks)
            meter = CostMeter(self.measured.engine, requests, self.request.prices)
        play = TimelineRun(self.measured, self.trace, self.gpus, meter)
        play.run(progress)
        self.placements = play.placements
        if self.request.ledger_path is not None:
            self._write_ledger(play, self.request.ledger_path)
        waiting = play.never_started()
        failures = Counter(play.why_not_started(task) for task in waiting)
        return RunResult(
            policy=self.request.policy,
            seed=self.request.seed,
            arrived=len(self.trace.tasks),
            placed=len(self.trace.tasks) - len(waiting),
            failed=len(waiting),
            gpus_total=self.gpus,
            first_refusal_load=None,
            accepted_by_class={},
            alloc_pct={},
            frag_pct_of_cluster={},
            failures_by_reason=dict(failures.most_common()),
            curve=EMPTY_CURVE,
            timeline=play.result(),
            **self._at_the_end(),
        )

    def _write_ledger(self, play: TimelineRun, path: str) -> None:
        # The ledger is no part of other replays, and takes its time to load.
        from gpufleet.replay.ledger_log import ledger_lines

        request = self.request
        names = Path(request.nodes_path).name, Path(request.pods_path).name
        cluster = f"replay of {names[1]} on {names[0]}, {request.title}"
        length_us = self.measured.engine.at_us
        with log_file(path) as file:
            for line in ledger_lines(self.trace.nodes, play.all_held(), cluster, request.begin_us, length_us):
                file.write(line)

    def _at_the_end(self) -> EndOfRun:
        """What both modes read from the engine when it is done."""
        view = FleetView(self.measured.engine)
        return EndOfRun(
            decision_seconds=round(self.measured.decision_s, 6),
            wall_seconds=0.0,
            peak_rss_mib=0.0,
            idle_by_node_type=view.idle_by_type(typical_gpu_shapes(self.trace.tasks)),
            fleet_at_end=view.picture() if self.request.picture else None,
        )
