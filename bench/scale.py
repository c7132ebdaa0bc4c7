"""What `gpufleet plan` and `gpufleet expander` cost, and how near purchases come to the cheapest.

Run by `make bench-scale`; `PARTS="bought stories"` (the names of ``PARTS``) measures some of it. The large
question is a fleet of 10,000 full nodes and 1,000 gangs that wait. The
small ones are problems of which an integer program finds the optimum: the search by sizes is held against it.
What the real Karpenter buys for our scheduler and for kube-scheduler alone, ``bought_nodes`` measures.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import NamedTuple

from bench import bought_nodes
from bench.figures import Figure, figure, publish
from gpufleet.cluster.settings import Settings
from gpufleet.plan.command import Question, plan_of
from gpufleet.plan.instance_types import shipped
from gpufleet.plan.purchase_search import cheapest_bins, cost_of
from gpufleet.whatif.request import Request
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.expander.autoscaler_stand_in import NEVER, StandIn, alone, story, with_the_expander
from tests.expander.offers import answered, option
from tests.plan.small_problems import optimum, problem

NODES, GPUS = 10_000, 8
GANGS, MEMBERS = 1_000, 8
"""Each member needs a whole node, so by hand 8,000 nodes with eight GPUs are bought."""

PLAN_S_MAX = 10.0
"""Processor time, as all times here: it is the wall's on a machine with a core to spare."""

ASKED_NODES, ASKED_GANGS, OPTIONS = 2_000, 100, 4
"""A question of Cluster Autoscaler: so many full nodes, gangs that wait, and groups that could grow."""

ANSWER_S_MAX = 5.0
"""The autoscaler waits no longer."""

STORIES, STORY_S = 1_000, 4 * 3600
"""Seeds of gangs that begin without nodes, and how long each story goes on at most."""

FAULT_STORIES = int(os.environ.get("SEEDS", "150"))
"""Each is two hours of moments, most of a second of processor time; a thousand take a quarter of an hour:
`SEEDS=1000 PARTS=faults make bench-scale`.
"""

GANGS_TOGETHER = 3
"""Gangs that wait for the same groups, in as many stories; in half of these the expander restarts."""

SMALL_PROBLEMS, LARGER_PROBLEMS = 400, 60
BEYOND_MAX = 0.05
"""How far beyond the optimum the cost of a purchase may be."""


def main() -> None:
    """Measure, and publish the figures."""
    named = os.environ.get("PARTS", "").split() or list(PARTS)
    unknown = [name for name in named if name not in PARTS]
    if unknown:
        raise SystemExit(f"PARTS: no part {unknown[0]}, there are {', '.join(PARTS)}")
    found: list[Figure] = []
    for name in named:
        began_s = time.monotonic()
        found += PARTS[name]()
        print(f"bench-scale: {name} took {time.monotonic() - began_s:.0f} s", flush=True)
    publish("scale" if len(named) == len(PARTS) else f"scale-{'-'.join(named)}", found)


def _full_fleet(nodes: int, gangs: int) -> Fleet:
    fleet = Fleet()
    for number in range(nodes):
        fleet.node(f"n{number}", gpus=GPUS)
        fleet.pod(f"runs-{number}", gpus=GPUS, node=f"n{number}", job=f"runs-{number}")
    for number in range(gangs):
        for member in range(MEMBERS):
            fleet.pod(f"waits-{number}-{member}", gpus=GPUS, job=f"waits-{number}", gang=MEMBERS)
    return fleet


def _answer() -> Figure:
    fleet = _full_fleet(ASKED_NODES, ASKED_GANGS)
    waiting = [f"waits-{gang}-{member}" for gang in range(ASKED_GANGS) for member in range(MEMBERS)]
    options = [option(f"group-{number}", len(waiting), *waiting, gpus=GPUS) for number in range(OPTIONS)]
    answered(fleet, *options)
    began_s = time.process_time()
    answered(fleet, *options)
    took_s = time.process_time() - began_s
    words = f"answer of the expander to {OPTIONS} options, {ASKED_NODES:,} nodes and {ASKED_GANGS} gangs"
    return figure(words, took_s, "s", "lower", ANSWER_S_MAX)


def _plan() -> list[Figure]:
    fleet = _full_fleet(NODES, GANGS)
    question = Question(Request(), shipped())
    began_s = time.process_time()
    plan = plan_of(question, fleet.picture, Settings(identity="bench"), AT, lambda _: None)
    took_s = time.process_time() - began_s
    bought = sum(one.count for one in plan.nodes)
    return [
        figure("plan for 10,000 nodes and 1,000 gangs", took_s, "s", "lower", PLAN_S_MAX),
        figure("nodes bought, of those needed", bought / (GANGS * MEMBERS), "ratio", "lower", 1.0),
        figure("pods that start with them", plan.pods_helped / (GANGS * MEMBERS), "ratio", "higher", 1.0),
    ]


class Ended(NamedTuple):
    """How a story ended: nodes that were bought and are no failures, and what runs, waits or went wrong.

    ``waiting`` are members of the gang that may start.
    """

    nodes: int
    running: int
    waiting: int
    failed: int
    taken_back: int
    broken_gangs: int


def _exact(seed: int) -> Ended:
    return _ended(story(seed, with_the_expander(), 1))


def _several(seed: int) -> Ended:
    return _ended(story(seed, with_the_expander(Random(seed) if seed % 2 else None), GANGS_TOGETHER))


def _without(seed: int) -> Ended:
    return _ended(story(seed, alone(Random(seed)), GANGS_TOGETHER))


def _faulty(seed: int) -> Ended:
    return _ended(story(seed, with_the_expander(Random(seed)), 1, faults=True))


def _ended(run: StandIn) -> Ended:
    run.run(STORY_S)
    waiting = sum(one.gang not in NEVER for one in run.waiting.values())
    nodes = run.bought - run.failed
    return Ended(nodes, len(run.running), waiting, run.failed, run.taken_back, run.broken_gangs)


def _all(tell: Callable[[int], Ended], stories: int) -> list[Ended]:
    """Stories of so many seeds, on all cores: no time is measured."""
    with ProcessPoolExecutor() as processes:
        return list(processes.map(tell, range(stories), chunksize=10))


def _from_zero() -> list[Figure]:
    """Gangs from zero nodes beside the stand-in for Cluster Autoscaler, with the expander and without."""
    exact, several, without = (_all(tell, STORIES) for tell in (_exact, _several, _without))
    together = f"{GANGS_TOGETHER} gangs together, nodes bought of those that work"
    return [
        figure(
            f"stories of one gang from zero nodes with a node too many, of {STORIES:,}",
            _with_a_node_too_many(exact),
            "",
            "lower",
            0,
        ),
        figure(
            f"stories of {GANGS_TOGETHER} gangs together with a node too many, of {STORIES:,}",
            _with_a_node_too_many(several),
            "",
            "lower",
            0,
        ),
        figure(f"{together}, with the expander", _bought_of_used(several), "ratio", "lower", 1.0),
        figure(f"{together}, the stand-in alone", _bought_of_used(without), "ratio", "lower"),
    ]


def _with_faults() -> list[Figure]:
    """One gang from zero nodes, with exhausted zones, nodes taken back, and restarts of the autoscaler and of
    the expander; beside it work that quota or missing members keep from starting.
    """
    ends = _all(_faulty, FAULT_STORIES)
    words = f"of {FAULT_STORIES:,} stories with faults"
    too_many = sum(one.nodes - one.taken_back > one.running + one.waiting for one in ends)
    return [
        figure(f"gangs with a node too many, {words}", too_many, "", "lower", 0),
        figure(
            f"moments with a part of a gang, {words}", sum(one.broken_gangs for one in ends), "", "lower", 0
        ),
        figure(
            f"gangs not running at the end, with those that no group holds, {words}",
            sum(one.waiting > 0 for one in ends),
            "",
            "lower",
        ),
        figure(f"nodes taken back, {words}", sum(one.taken_back for one in ends), "", "higher"),
        figure(f"launches that failed, {words}", sum(one.failed for one in ends), "", "higher"),
    ]


def _with_a_node_too_many(ends: Sequence[Ended]) -> int:
    return sum(one.nodes != one.running for one in ends)


def _bought_of_used(ends: Sequence[Ended]) -> float:
    return sum(one.nodes for one in ends) / sum(one.running for one in ends)


def _beyond(what: str, problems: int, kinds_max: int = 4, count_max: int = 5) -> list[Figure]:
    beyond = []
    for seed in range(problems):
        items, bins = problem(seed, kinds_max, count_max)
        found, least = cheapest_bins(items, bins), optimum(items, bins)
        if found is not None and least is not None:
            beyond.append(cost_of(found, bins) / least - 1)
    mean = sum(beyond) / len(beyond)
    return [
        figure(f"cost beyond the optimum, {what}, mean", mean, "ratio", "lower", BEYOND_MAX),
        figure(f"cost beyond the optimum, {what}, worst", max(beyond), "ratio", "lower"),
    ]


def _all_beyond() -> list[Figure]:
    return [
        *_beyond("few pods", SMALL_PROBLEMS),
        *_beyond("up to 180 pods", LARGER_PROBLEMS, 6, 30),
    ]


PARTS: dict[str, Callable[[], list[Figure]]] = {
    "plan": _plan,
    "answer": lambda: [_answer()],
    "bought": bought_nodes.figures,
    "stories": _from_zero,
    "faults": _with_faults,
    "optimum": _all_beyond,
}


if __name__ == "__main__":
    main()
