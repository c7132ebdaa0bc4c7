"""Where the time of a decision goes: one default replay under a profiler, summed up by part.

The profiler slows Python code down several times but not the compiled kernels, so the shares tell
what to look at, not what a part costs; ``bench.engine`` measures that.
"""

import cProfile
import pstats
from pathlib import Path

from bench.figures import figure, publish
from gpufleet.replay.data_files import shipped_node_list, shipped_task_list
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest

PARTS = {
    "journal.py": "kernels: rank, choose, book, release",
    "available.py": "kernels: rank, choose, book, release",
    "placement.py": "kernels: rank, choose, book, release",
    "ranking.py": "kernels: rank, choose, book, release",
    "placing.py": "kernels: rank, choose, book, release",
    "verdict.py": "verdicts of refused pods",
    "survey.py": "verdicts of refused pods",
    "cycle.py": "whose turn (queues, lines)",
    "waiting.py": "whose turn (queues, lines)",
    "intake.py": "taking events in",
    "engine_state.py": "taking events in",
    "pods.py": "pods and shapes by row",
    "shapes.py": "pods and shapes by row",
    "tables.py": "pods and shapes by row",
    "scheduler.py": "the step itself",
    "mix.py": "learning",
    "study.py": "learning",
    "remainder_value.py": "learning",
    "whole_slots.py": "learning",
    "host_curve.py": "learning",
    "policy_state.py": "learning",
    "fragmentation_meter.py": "the replay's own measuring",
    "tally.py": "the replay's own measuring",
    "saturate.py": "the replay's own measuring",
    "driver.py": "the replay's own measuring",
}
OTHER = "everything else (reading the trace, built-in functions)"


def part_of(filename: str) -> str:
    """The part of the engine or the replay that a source file belongs to."""
    return PARTS.get(Path(filename).name, OTHER) if "gpufleet" in filename else OTHER


def main() -> None:
    """Profile the two policies that the replay compares by default."""
    figures = []
    for policy in ("fgd", "gpufleet"):
        request = RunRequest(str(shipped_node_list()), str(shipped_task_list()), policy, 42)
        run(request)  # loads the kernels and the trace
        profiler = cProfile.Profile()
        profiler.runcall(run, request)
        seconds: dict[str, float] = {}
        stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
        for (filename, _, _), (_, _, own, _, _) in stats.items():
            part = part_of(filename)
            seconds[part] = seconds.get(part, 0.0) + own
        total = sum(seconds.values())
        figures += [
            figure(f"{policy}: {part}", 100 * own / total, "%", "lower")
            for part, own in sorted(seconds.items(), key=lambda item: -item[1])
        ]
    publish("profile", figures)


if __name__ == "__main__":
    main()
