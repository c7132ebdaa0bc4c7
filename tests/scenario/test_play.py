"""A scenario is played by the real engine, and what it expects is really compared."""

from pathlib import Path

import pytest

from gpufleet.scenario.scenario_errors import ScenarioError
from tests.scenario.stories import played

TWO_GPUS = "nodes: [{name: n, gpus: 2}]\n"


def test_what_came_true_is_no_difference(tmp_path: Path) -> None:
    outcome = played(
        tmp_path,
        TWO_GPUS
        + """
work: [{name: a, gpus: 1}, {name: b, gpus: 2}]
expect: {running: {a: n, b: 0}, waiting: {b: GPU}, started: [a]}
steps:
  - {at: 5s, end: [a], expect: {running: {b: [n]}, started: [b]}}
""",
    )
    assert outcome.passed, outcome.differences
    assert [(one.started, one.at_s) for one in outcome.decisions] == [("a", 0.0), ("b", 5.0)]


@pytest.mark.parametrize(
    ("expect", "field"),
    [
        ("{running: {a: 0}}", "expect.running.a"),
        ("{running: {a: elsewhere}}", "expect.running.a"),
        ("{waiting: {a: ''}}", "expect.waiting.a"),
        ("{waiting: {b: 'the moon'}}", "expect.waiting.b"),
        ("{started: [b]}", "expect.started"),
        ("{started: []}", "expect.started"),
        ("{evicted: {a: 1}}", "expect.evicted"),
        ("{rejected: [anything]}", "expect.rejected"),
    ],
)
def test_what_did_not_come_true_is_told_with_its_field(expect: str, field: str, tmp_path: Path) -> None:
    body = TWO_GPUS + f"work: [{{name: a, gpus: 1}}, {{name: b, gpus: 2}}]\nexpect: {expect}\n"
    assert [one.field for one in played(tmp_path, body).differences] == [field]


def test_domains_are_counted_by_path(tmp_path: Path) -> None:
    outcome = played(
        tmp_path,
        """
topology: [zone, rack]
nodes:
  - {name: a, gpus: 1, labels: {zone: z1, rack: r1}}
  - {name: b, gpus: 1, labels: {zone: z2, rack: r1}}
work: [{name: g, pods: 2, gpus: 1}]
expect: {domains: {g: {rack: 1, zone: 2}}}
""",
    )
    assert [(one.field, one.expected, one.found) for one in outcome.differences] == [
        ("expect.domains.g.rack", "1", "2")
    ]


def test_without_nodes_every_pod_has_one_that_suits_it(tmp_path: Path) -> None:
    outcome = played(
        tmp_path,
        """
work:
  - {name: whole, gpus: 8, models: [H100]}
  - {name: part, count: 3, fraction: 0.5, gpuMemory: 60Gi}
  - {name: slice, resources: {nvidia.com/mig-1g.5gb: 2}, selector: {pool: a}}
expect: {running: {whole: 1, part: 3, slice: 1}}
""",
    )
    assert outcome.passed, outcome.differences


def test_work_that_runs_already_holds_its_node(tmp_path: Path) -> None:
    outcome = played(
        tmp_path,
        TWO_GPUS
        + """
work: [{name: old, count: 2, gpus: 1, runsOn: n}, {name: new, gpus: 1}]
expect: {running: {old: [n, n], new: 0}, started: []}
steps:
  - {end: [old-1], expect: {running: {old: [n], new: n}}}
""",
    )
    assert outcome.passed, outcome.differences


def test_a_gang_of_roles_starts_with_the_minimum_of_each(tmp_path: Path) -> None:
    outcome = played(
        tmp_path,
        TWO_GPUS
        + """
work:
  - name: job
    roles:
      - {name: driver, pods: 1, cpu: 1}
      - {name: worker, pods: 3, min: 2, gpus: 1}
expect: {running: {job: 3, job-driver-1: n, job-worker-3: 0}}
""",
    )
    assert outcome.passed, outcome.differences


def test_the_same_file_gives_the_same_decisions(tmp_path: Path) -> None:
    body = "nodes: [{name: n, count: 5, gpus: 8}]\nwork: [{name: a, count: 20, fraction: 0.3}]\n"
    assert played(tmp_path, body).decisions == played(tmp_path, body).decisions


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("work: [{name: a, gpus: 1, runsOn: nowhere}]\nnodes: []\n", "work[0].runsOn"),
        ("work: [{name: a}, {name: a}]\n", "work[1].name"),
        ("work: [{name: a, gpuz: 1}]\n", "gpuz"),
        ("work: [{name: a, level: rack}]\n", "work[0].level"),
        ("work: [{name: a, pods: 2, count: 2}]\n", "work[0]"),
        ("work: [{name: a, pods: 0}]\n", "work[0].pods"),
        ("work: [{name: a, fraction: 1.5}]\n", "work[0].fraction"),
        ("work: [{name: a, count: 2, runsOn: [n]}]\nnodes: [{name: n}]\n", "work[0].runsOn"),
        ("steps: [{at: 5s}, {at: 4s}]\n", "steps[1].at"),
        ("steps: [{end: [nobody]}]\n", "steps[0].end"),
        ("steps: [{removeNodes: [n]}]\n", "steps[0].removeNodes"),
        ("queues: [{name: q, state: shut}]\n", "queues[0].state"),
        ("queues: [{name: q, preemption: {reclaim: all}}]\n", "queues[0].preemption.reclaim"),
        ("settings: {evicted: haunt}\n", "settings.evicted"),
        ("settings: {policy: best}\n", "policy"),
        ("expect: {running: {ghost: 1}}\n", "expect.running.ghost"),
        ("nodes: [{name: n, count: 0}]\n", "nodes[0].count"),
    ],
)
def test_a_bad_file_is_refused_by_file_and_field(body: str, field: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as refused:
        played(tmp_path, body)
    assert field in refused.value.field
    assert "story.yaml" in str(refused.value)


def test_strangers_hold_no_more_gpus_than_a_node_has(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nodes.*held"):
        played(tmp_path, "nodes: [{name: n, gpus: 2, held: 3}]\n")
