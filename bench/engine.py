"""How fast the engine decides: the published replay, and synthetic fleets with churn.

The replay is measured as a multiple of ``reference_loop``, which can do nothing else, in the same
run; the synthetic fleets (``synthetic``) run in processes of their own, so that their memory is
their own. Kernels are compiled before (``make setup``).
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench import reference_loop
from bench.figures import Figure, figure, publish
from bench.synthetic import Measured
from gpufleet.replay.arrivals import gpu_capacity_milli, saturating, units_of
from gpufleet.replay.data_files import shipped_node_list, shipped_task_list
from gpufleet.replay.go_random import GoRandom
from gpufleet.replay.trace import read_trace
from gpufleet.replay.typical import typical_workload

ROUNDS = 5
SIZES = (1_000, 10_000)
GO_SIMULATOR_SECONDS = 24 * 60
"""The published simulator, in Go, on a 2-core machine: 23 to 25 minutes for one run with FGD."""


def replay_once(policy: str) -> tuple[float, float]:
    """(decision seconds, process seconds) of one default saturate run as a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result.json")
        command = [sys.executable, "-m", "gpufleet", "replay", "--policy", policy, "--quiet"]
        started = time.perf_counter()
        subprocess.run([*command, "--json", str(path)], check=True)
        took = time.perf_counter() - started
        return float(json.loads(path.read_bytes())["runs"][0]["decision_seconds"]), took


def reference_once() -> float:
    """Seconds of the purpose-built loop on the same kind of run."""
    trace = read_trace(shipped_node_list(), shipped_task_list())
    source = GoRandom(42)
    units = saturating(units_of(trace), gpu_capacity_milli(trace.nodes), 1.3, source)
    arrivals = [task.shape for unit in units for task in unit.tasks]
    took, _ = reference_loop.seconds(trace.nodes, arrivals, typical_workload(trace.tasks))
    return float(took)


def synthetic(nodes: int) -> Measured:
    """One synthetic fleet in a process of its own."""
    print(f"churning a fleet of {nodes} nodes ...", file=sys.stderr)
    command = [sys.executable, "-m", "bench.synthetic", str(nodes)]
    done = subprocess.run(command, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=Measured)


def replay_figures() -> tuple[list[Figure], list[str]]:
    """Decision and process time of the published replay."""
    reference = reference_once()
    figures: list[Figure] = []
    notes: list[str] = []
    for policy, decision_target, process_target, multiple_target in (
        ("fgd", 1.0, 4.0, 3.0),
        ("gpufleet", None, None, 3.5),
    ):
        print(f"replaying with {policy}, {ROUNDS} times ...", file=sys.stderr)
        rounds = [replay_once(policy) for _ in range(ROUNDS)]
        decisions, processes = zip(*rounds, strict=True)
        decision, process = statistics.median(decisions), statistics.median(processes)
        figures += [
            figure(f"default replay, {policy}: decisions", decision, "s", "lower", decision_target),
            figure(f"default replay, {policy}: the process", process, "s", "lower", process_target),
        ]
        multiple = f"default replay, {policy}: decisions as a multiple of the purpose-built loop"
        figures.append(figure(multiple, decision / reference, "x", "lower", multiple_target))
        if policy == "fgd":
            figures.append(figure("purpose-built loop", reference, "s", "lower"))
            figures.append(
                figure("faster than the published simulator", GO_SIMULATOR_SECONDS / process, "x", "higher")
            )
        notes.append(
            f"{policy}: decisions {min(decisions):.2f} to {max(decisions):.2f} s, "
            f"process {min(processes):.2f} to {max(processes):.2f} s over {ROUNDS} rounds"
        )
    return figures, notes


def synthetic_figures() -> list[Figure]:
    """Rates, single questions and memory of both sizes."""
    small, large = (synthetic(nodes) for nodes in SIZES)
    rates = [one.decisions / one.seconds for one in (small, large)]
    figures = [
        figure(f"{one.nodes} nodes, churn: decisions", rate, "1/s", "higher", 30_000)
        for one, rate in zip((small, large), rates, strict=True)
    ]
    figures.append(
        figure("the larger fleet's rate against the smaller's", rates[1] / rates[0], "", "higher", 0.5)
    )
    for one in (small, large):
        title = f"{one.nodes} nodes:"
        figures += [
            figure(
                f"{title} first pod of an unseen shape", 1000 * one.unseen_shape_seconds, "ms", "lower", 20
            ),
            figure(f"{title} verdict with explanation", 1000 * one.verdict_seconds, "ms", "lower", 10),
            figure(f"{title} gang of 1,000 placed", 1000 * one.gang_placed_seconds, "ms", "lower", 100),
            figure(f"{title} gang of 1,000 refused", 1000 * one.gang_refused_seconds, "ms", "lower", 100),
            figure(f"{title} fleet set up", one.set_up_seconds, "s", "lower"),
            figure(f"{title} peak memory", one.peak_rss_mib, "MiB", "lower", 500),
            figure(f"{title} valuations learned in 100,000 arrivals", one.valuations, "", "lower"),
        ]
    return figures


def main() -> None:
    """Measure everything and publish."""
    replayed, notes = replay_figures()
    figures = replayed + synthetic_figures()
    publish("engine", figures, notes)


if __name__ == "__main__":
    main()
