"""Whole runs: a good scheduler keeps every promise under every fault, a bad one is caught by name."""

import os
import subprocess
import sys

import pytest

from gpufleet.simulation.cluster_recipe import Recipe
from gpufleet.simulation.faults.catalogue import CATALOGUE, Row, make_faults
from gpufleet.simulation.scenario import Outcome, run_scenario
from gpufleet.simulation.world import RunPlan
from tests.conventions.project import ROOT
from tests.simulation.naive_binder import naive

# What a binder without patience, read-backs or fear of broken objects cannot be asked to survive.
REPORTS = ("report-deleted", "report-restored", "node-made-anew", "crd-deleted")
BEYOND_NAIVE = {"poison-object", "starved", "old-grant-version", *REPORTS}


def story(outcome: Outcome) -> str:
    """Why a run failed."""
    return "\n".join([*map(str, outcome.broken), *map(str, outcome.happened[-20:])])


@pytest.mark.parametrize("seed", range(5))
def test_a_good_scheduler_keeps_every_promise_in_a_calm_world(seed: int) -> None:
    outcome = run_scenario(naive(), seed)
    assert outcome.held, story(outcome)
    assert outcome.bound > 5
    assert outcome.waiting >= 1, "the pod that is larger than any node waits"


def test_the_same_seed_is_the_same_run() -> None:
    names = ["kill-after-write-k", "bind-unknown-applied"]
    runs = [run_scenario(naive(), 7, lambda random: make_faults(names, random)) for _ in range(2)]
    assert runs[0].digest == runs[1].digest
    assert runs[0].digest != run_scenario(naive(), 8).digest


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_run_does_not_depend_on_the_process(hash_seed: str) -> None:
    code = (
        "from tests.simulation.naive_binder import naive\n"
        "from gpufleet.simulation.scenario import run_scenario\n"
        "print(run_scenario(naive(), 7).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == run_scenario(naive(), 7).digest


@pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: row.name)
def test_a_good_scheduler_survives_the_fault(row: Row) -> None:
    if row.name in BEYOND_NAIVE:
        pytest.skip("asks for more than the naive binder does")
    outcome = run_scenario(naive(), 3, lambda random: make_faults([row.name], random))
    assert outcome.held, story(outcome)


@pytest.mark.parametrize("name", ["report-restored", "crd-deleted"])
def test_a_scheduler_that_believes_whatever_report_there_is_gives_gpus_twice(name: str) -> None:
    outcome = run_scenario(naive(), 3, lambda random: make_faults([name], random))
    assert "I1" in {one.invariant for one in outcome.broken}


@pytest.mark.parametrize(("mistake", "promise"), [
    ("forgets-what-it-gave", "I1"),
    ("says-nothing", "I2"),
    ("half-gangs", "I3"),
    ("old-epoch", "I6"),
    ("binds-nothing", "I9"),
    ("hammers", "I10"),
    ("takes-running-pods", "I12"),
    ("talks-nonsense", "I13"),
])  # fmt: skip
def test_a_mistake_is_caught_by_the_promise_that_it_breaks(mistake: str, promise: str) -> None:
    crowded = Recipe(nodes=2, gpus_per_node=3, gangs=4, single_pods=10, arrive_within_s=100.0)
    plan = RunPlan(
        recipe=crowded, policies=False, gang_deadline_s=60.0, schedulers=2, calm_s=150.0, settle_s=60.0
    )
    names = ["leader-paused"] if mistake == "old-epoch" else []
    runs = (
        run_scenario(naive(mistake), seed, lambda random: make_faults(names, random), plan)
        for seed in range(6)
    )
    assert any(broken.invariant == promise for outcome in runs for broken in outcome.broken)


def test_the_fence_stops_a_leader_whose_epoch_is_over() -> None:
    plan = RunPlan(recipe=Recipe(arrive_within_s=100.0), schedulers=2)
    outcomes = [
        run_scenario(naive("old-epoch"), seed, lambda random: make_faults(["leader-paused"], random), plan)
        for seed in range(4)
    ]
    assert not [broken for outcome in outcomes for broken in outcome.broken if broken.invariant == "I6"]
    refused = [one for outcome in outcomes for one in outcome.history.requests if one.code == 403]
    assert refused, "nothing old was ever tried"
