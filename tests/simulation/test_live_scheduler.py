"""The live scheduler, as it runs in a cluster, keeps every promise under every fault.

A failing seed is seen again with ``gpufleet-sim --fault NAME --seed N``. Many more seeds: ``make soak``.
"""

import gc
import os
import subprocess
import sys

import msgspec
import pytest

from gpufleet.cluster.settings import LeaseTimes, Settings
from gpufleet.engine.event import PodRemoved
from gpufleet.model.identifiers import PodUid
from gpufleet.simulation.cluster_recipe import Recipe
from gpufleet.simulation.faults.catalogue import CATALOGUE, make_faults
from gpufleet.simulation.history import PODS
from gpufleet.simulation.live_scheduler import LIVE, PRIORITIES, TEAMS, Life, LiveScheduler, RecordedStep
from gpufleet.simulation.pod_facts import gang_of, node_of
from gpufleet.simulation.scenario import Outcome, run_scenario
from gpufleet.simulation.world import RunPlan
from tests.conventions.project import ROOT

SEEDS = (1, 2)
"""Each run takes about half a second. ``make soak`` goes through 200 seeds."""
CROWDED = msgspec.structs.replace(
    LIVE,
    recipe=Recipe(nodes=2, gpus_per_node=3, gangs=5, single_pods=12, workloads=4, claims=3, drains=3),
    calm_s=300.0,
)
"""Far more work than room: whoever runs is in somebody's way."""


def run(seed: int, *names: str, plan: RunPlan = LIVE, scheduler: LiveScheduler | None = None) -> Outcome:
    """One run of the live scheduler."""
    return run_scenario(scheduler or LiveScheduler(), seed, lambda random: make_faults(names, random), plan)


def check(outcome: Outcome) -> None:
    """Every promise held; otherwise the story."""
    told = [*map(str, outcome.broken), *map(str, outcome.happened[-20:])]
    assert outcome.held, "\n".join([f"again: gpufleet-sim --fault {','.join(outcome.faults)}", *told])


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept_in_a_calm_world(seed: int) -> None:
    outcome = run(seed)
    check(outcome)
    assert outcome.bound > 10
    assert outcome.waiting >= 1, "the pod that is larger than any node waits"
    assert outcome.restarts == 0


def test_teams_that_take_back_from_each_other_keep_every_promise() -> None:
    outcome = run(1, plan=TEAMS)
    check(outcome)
    asked = [one for one in outcome.history.requests if one.target.endswith("/eviction") and one.code == 201]
    assert len(asked) == 5, "four GPUs that are owed, and one for work of higher priority"


@pytest.mark.parametrize("name", [row.name for row in CATALOGUE if row.of_teams])
def test_every_promise_is_kept_under_faults_of_evictions(name: str) -> None:
    outcome = run(2, name, plan=TEAMS)
    assert outcome.acted[name], "it never happened: the run proves nothing"
    check(outcome)


@pytest.mark.parametrize("name", [row.name for row in CATALOGUE if not row.of_teams])
def test_every_promise_is_kept_under_the_fault(name: str) -> None:
    # One run that meets it is enough: test_agreement meets half of them again, by other seeds, in other work.
    for seed in SEEDS:
        outcome = run(seed, name)
        check(outcome)
        if outcome.acted[name]:
            return
    pytest.fail("it never happened: the runs prove nothing")


@pytest.mark.parametrize("names", [
    ("kill-after-write-k", "bind-unknown-applied"),
    ("two-leaders", "kill-after-write-k", "out-of-order-kinds"),
    ("leader-paused", "too-many-requests", "watch-410-event"),
    ("gang-member-refused", "bind-conflict", "lagging-second-server"),
    ("poison-object", "delete-create-same-name", "wall-clock-jump"),
])  # fmt: skip
def test_every_promise_is_kept_under_several_faults_at_once(names: tuple[str, ...]) -> None:
    check(run(11, *names))


@pytest.mark.parametrize("names", [(), ("gang-member-refused",), ("kill-after-write-k",), ("starved",)])
def test_a_cluster_with_far_too_much_work_leaves_no_gang_half_bound(names: tuple[str, ...]) -> None:
    outcome = run(5, *names, plan=CROWDED)
    check(outcome)
    final = outcome.history.final(PODS).values()
    members = [pod for pod in final if gang_of(pod) is not None]
    assert any(not node_of(pod) for pod in members), "there was room for all: the run proves nothing"


def test_a_leader_that_sleeps_past_its_lease_and_wakes_gives_nothing_away() -> None:
    """It wakes with Bindings in its hands, and another leads since long."""
    outcomes = [run(seed, "leader-paused", plan=CROWDED) for seed in (1, 2, 3)]
    for outcome in outcomes:
        check(outcome)
    assert all(outcome.acted["leader-paused"] for outcome in outcomes)
    lost = [one.words for outcome in outcomes for one in outcome.happened if "LeadershipLost" in one.words]
    assert lost, "no leader woke too late: the runs prove nothing"


def test_without_the_fence_such_a_leader_is_seen_by_the_judge() -> None:
    """The fence is what keeps the promise: the same runs without it break it."""
    settings = Settings("", lease=LeaseTimes(15, 1e6, 2.0), require_fence=False, gang_deadline_s=60.0)
    plan = msgspec.structs.replace(CROWDED, policies=False)
    # The first of these seeds breaks it today; the others are run only where a change makes it hold there.
    seeds = (5, *range(1, 5), *range(6, 9))
    runs = (run(seed, "leader-paused", plan=plan, scheduler=LiveScheduler(settings)) for seed in seeds)
    assert any(one.invariant in {"I1", "I6"} for outcome in runs for one in outcome.broken)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_seed_is_the_same_run_in_any_process(hash_seed: str) -> None:
    code = (
        "from tests.simulation.test_live_scheduler import run\n"
        "print(run(7, 'kill-after-write-k', 'bind-unknown-applied').digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == run(7, "kill-after-write-k", "bind-unknown-applied").digest


def test_the_same_seed_is_the_same_run_however_soon_python_collects_what_a_broken_connection_left() -> None:
    digests = set()
    before = gc.get_threshold()
    try:
        for allocations in (20, 10**9):
            gc.set_threshold(allocations)
            digests.add(run(5, "watch-cut", plan=PRIORITIES).digest)
    finally:
        gc.set_threshold(*before)
    assert len(digests) == 1


def test_an_engine_that_says_something_else_when_it_runs_again_is_found() -> None:
    life = Life("scheduler-0-1", "gpufleet", "by-queues")
    life.record(1, (PodRemoved(PodUid("nobody")),), [], goes_on=False)
    assert list(life.broken()) == []
    # A process that ended within a step kept what it had decided until then.
    life.record(2, (), [], goes_on=True)
    assert list(life.broken()) == []
    life.steps[-1] = RecordedStep(2, (), [b'["something else"]'], goes_on=True)
    assert [one.invariant for one in life.broken()] == ["I8"]


def test_a_scheduler_that_ends_by_a_mistake_of_its_own_is_found() -> None:
    async def mistaken(*_: object) -> None:
        raise ZeroDivisionError

    outcome = run_scenario(mistaken, 1, plan=msgspec.structs.replace(LIVE, calm_s=10.0))
    assert {one.invariant for one in outcome.broken} >= {"alive"}
    assert any("ZeroDivisionError" in one.words for one in outcome.broken)
