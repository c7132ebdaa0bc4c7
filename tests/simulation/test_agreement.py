"""A fresh ``explain`` and the live scheduler's next decision agree on every pod that waits, at any moment.

Each fault acts together with people who change their minds, so that work waits for many reasons. Many more
seeds: ``make soak-agree``.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.watching.mirrors import Watched
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.simulation import agreement
from gpufleet.simulation.agreement import Agreement
from gpufleet.simulation.cluster_recipe import Recipe
from gpufleet.simulation.faults.catalogue import BY_NAME, CATALOGUE, Row, make_faults
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.live_scheduler import LIVE, PRIORITIES, TEAMS, LiveScheduler
from gpufleet.simulation.scenario import Outcome, run_scenario
from gpufleet.simulation.world import RunPlan
from tests.conventions.project import ROOT

CROWDED = msgspec.structs.replace(
    LIVE,
    recipe=Recipe(nodes=2, gpus_per_node=3, gangs=5, single_pods=12, workloads=4, claims=3, drains=3),
    calm_s=30.0,
)
"""Far more work than room, so that much waits for many reasons."""

FAULTS = (
    "watch-cut",
    "watch-410-status",
    "watch-410-event",
    "watch-silent",
    "bind-conflict",
    "server-down",
    "reads-work-writes-fail",
    "leader-paused",
    "kill-after-write-k",
    "gang-member-refused",
    "eviction-429",
    "eviction-unknown-applied",
    "eviction-unknown-lost",
    "kill-while-evicting",
    "report-deleted",
    "report-restored",
    "random-edits",
)
"""Faults of each kind, in as much time as a test may take; a soak goes through all of them."""

OFTEN, SELDOM = 20.0, 50.0
"""Seconds, and writes, between two comparisons."""

MUCH_WAITS = frozenset(
    {
        *("watch-cut", "watch-410-status", "watch-410-event", "watch-silent", "leader-paused"),
        *("gang-member-refused", "report-deleted", "report-restored", "random-edits", "bind-conflict"),
    }
)
"""Faults under which hundreds of pods wait: to compare them all costs more than the run."""

SHORT_TEAMS = msgspec.structs.replace(TEAMS, calm_s=30.0)


def watched_run(
    seed: int, *names: str, plan: RunPlan = CROWDED, every: float = OFTEN
) -> tuple[Agreement, Outcome]:
    """A run with comparisons."""
    scheduler = LiveScheduler()
    observer = Agreement(scheduler, every_s=every, every_writes=every)
    outcome = run_scenario(scheduler, seed, lambda random: make_faults(names, random), plan, observer)
    return observer, outcome


def disagreements(outcome: Outcome) -> list[Broken]:
    """What both sides said differently."""
    return [one for one in outcome.broken if one.invariant == "explain"]


@pytest.mark.parametrize("row", [BY_NAME[name] for name in FAULTS], ids=lambda row: row.name)
def test_explain_says_what_the_scheduler_does_under_the_fault(row: Row) -> None:
    names = dict.fromkeys((row.name, "random-edits"))
    seed, plan = 1 + CATALOGUE.index(row), SHORT_TEAMS if row.of_teams else CROWDED
    every = SELDOM if row.name in MUCH_WAITS else OFTEN
    observer, outcome = watched_run(seed, *names, plan=plan, every=every)
    assert observer.compared > 20, observer.summary()
    assert not outcome.broken, "\n".join(map(str, outcome.broken[:5]))


def test_the_document_says_under_which_faults_both_are_compared_here() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]*\| `([a-z0-9-]+)` \|.*\| (CI|soak) \|$", text, flags=re.MULTILINE)
    here = {*FAULTS, *(name for name, _ in (*WITH_PRIORITIES, *ALSO_COMPARED))}
    assert {name for name, _ in rows} == set(BY_NAME)
    assert {name for name, where in rows if where == "CI"} == here


JUDGED_WRONGLY_BEFORE = (
    ("bind-conflict", 1),
    ("eviction-429", 1),
    ("poison-object", 3),
    ("report-restored", 2),
)
"""Seeds with more work than room: a judge once took what others did there for a mistake of the scheduler."""


@pytest.mark.parametrize(("name", "seed"), JUDGED_WRONGLY_BEFORE)
def test_crowded_runs_keep_every_promise_under_these_seeds(name: str, seed: int) -> None:
    plan = SHORT_TEAMS if BY_NAME[name].of_teams else CROWDED
    outcome = run_scenario(
        LiveScheduler(), seed, lambda random: make_faults((name, "random-edits"), random), plan
    )
    assert not outcome.broken, "\n".join(map(str, outcome.broken[:5]))


def test_a_gpu_on_which_a_pod_runs_under_an_id_of_a_restored_report_is_not_free() -> None:
    outcome = run_scenario(
        LiveScheduler(), 4, lambda random: make_faults(("report-restored",), random), PRIORITIES
    )
    assert not outcome.broken, "\n".join(map(str, outcome.broken[:5]))


WITH_PRIORITIES = (
    ("kill-while-evicting", 1),
    ("kill-after-write-k", 1),
    ("bind-conflict", 2),
    ("eviction-unknown-applied", 1),
    ("leader-paused", 2),
    ("two-leaders", 1),
    ("too-many-requests", 4),
    ("old-grant-version", 5),
    ("gang-member-refused", 2),
    ("gang-member-refused", 3),
    ("delete-create-same-name", 2),
)


@pytest.mark.parametrize(("name", "seed"), WITH_PRIORITIES)
def test_explain_says_what_becomes_of_work_that_makes_room_by_priority(name: str, seed: int) -> None:
    # Much waits here too.
    observer, outcome = watched_run(seed, name, plan=PRIORITIES, every=SELDOM)
    assert observer.compared > 20, observer.summary()
    found = disagreements(outcome)
    assert not found, "\n".join(map(str, found[:5]))


ALSO_COMPARED = (("two-leaders", 9), ("two-leaders", 12), ("report-restored", 22))


@pytest.mark.parametrize(("name", "seed"), ALSO_COMPARED)
def test_explain_says_what_the_scheduler_does_under_these_seeds(name: str, seed: int) -> None:
    """A leader's clock that is behind, and a report that lists nothing where pods hold unlisted devices."""
    observer, outcome = watched_run(seed, name, plan=LIVE)
    assert observer.compared > 20, observer.summary()
    found = disagreements(outcome)
    assert not found, "\n".join(map(str, found[:5]))


def test_the_comparison_does_not_change_the_run() -> None:
    names = ("random-edits", "kill-after-write-k")
    _, with_comparisons = watched_run(3, *names)
    alone = run_scenario(LiveScheduler(), 3, lambda random: make_faults(names, random), CROWDED)
    assert with_comparisons.digest == alone.digest


def test_an_explain_that_sees_a_node_less_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutNode(Picture):
        def read(self, watched: Watched, raws: Iterable[msgspec.Raw]) -> None:
            super().read(watched, raws)
            if watched.kind == resources.NODES:
                self.objects[watched.kind].pop(("", "node-0"), None)

    monkeypatch.setattr(agreement, "Picture", WithoutNode)
    _, outcome = watched_run(1)
    assert disagreements(outcome)


def test_a_scheduler_that_ignores_taints_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutTaints(NodeTracker):
        def _read(self, *what: Any) -> Any:
            return msgspec.structs.replace(super()._read(*what), taints=())

    monkeypatch.setattr("gpufleet.scheduler.service.NodeTracker", WithoutTaints)
    _, outcome = watched_run(1, "random-edits")
    assert disagreements(outcome)


def test_a_moment_without_a_leader_is_counted_and_not_compared() -> None:
    async def never(*_: object) -> None:
        return

    observer = Agreement(LiveScheduler())
    run_scenario(never, 1, plan=msgspec.structs.replace(CROWDED, calm_s=5.0), observer=observer)
    assert observer.compared == 0
    assert {moment.passed_over for moment in observer.moments} == {"no scheduler leads"}
