"""Runs all of it and publishes the figures beside those that others publish."""

import statistics
import subprocess
import sys

import msgspec

from bench.figures import Figure, figure, publish
from bench.queues import kai, kueue, optimality
from bench.queues.thousand_queues import Measured

ROUNDS = 3
CYCLE_BAR_S = 1.0


def kueue_figures(load: kueue.Load) -> list[Figure]:
    """Makespan and waits against Kueue's, and the engine's own time."""
    print(f"Kueue's {load.name} load ...", file=sys.stderr)
    course = kueue.play(load)
    title = f"Kueue {load.name}:"
    figures = [
        figure(f"{title} makespan", course.makespan_s, "s", "lower", load.makespan_s),
        figure(f"{title} deciding", course.decision_s, "s", "lower", load.decision_s),
        figure(f"{title} slowest step", 1000 * course.slowest_step_s, "ms", "lower"),
    ]
    for kind, published_s in load.waits_s.items():
        waits = course.waits[kind]
        figures.append(figure(f"{title} mean wait, {kind}", waits.mean_s, "s", "lower", published_s))
        figures.append(figure(f"{title} evictions, {kind}", waits.evictions, "", "lower"))
    return figures


def kai_figures() -> list[Figure]:
    """KAI's cases in the engine."""
    print(f"KAI's cases, {ROUNDS} times ...", file=sys.stderr)
    figures: list[Figure] = []
    for rounds in kai.cases(ROUNDS):
        case, took_s = rounds[0], statistics.median(one.took_s for one in rounds)
        figures.append(figure(f"500 nodes: {case.name}", 1000 * took_s, "ms", "lower", 1000 * case.bar_s))
        figures.append(figure("... against KAI's live figure", case.published_s / took_s, "x", "higher"))
    return figures


def large_figures() -> list[Figure]:
    """A cycle with a hundred thousand waiting pods, in a process of its own."""
    print("1,000 queues, 100,000 waiting pods ...", file=sys.stderr)
    command = [sys.executable, "-m", "bench.queues.thousand_queues"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured = msgspec.json.decode(done.stdout, type=Measured)
    title = "10,000 nodes, 1,000 queues, 100,000 waiting:"
    figures = [
        figure(
            f"{title} a cycle that starts {measured.started[count]}",
            1000 * took_s,
            "ms",
            "lower",
            1000 * CYCLE_BAR_S if count == max(measured.cycle_s) else None,
        )
        for count, took_s in measured.cycle_s.items()
    ]
    return [
        *figures,
        figure(f"{title} a cycle without change", 1000 * measured.idle_s, "ms", "lower"),
        figure(f"{title} taking the pods in", measured.submit_s, "s", "lower"),
        figure(f"{title} peak memory", measured.peak_rss_mib, "MiB", "lower"),
    ]


def main() -> None:
    """Measure everything and publish."""
    figures = [one for load in (kueue.BASELINE, kueue.LARGE_SCALE) for one in kueue_figures(load)]
    print("How far from the optimum ...", file=sys.stderr)
    publish("queues", [*figures, *kai_figures(), *large_figures(), *optimality.figures()])


if __name__ == "__main__":
    main()
