"""The benchmarks of queues run, in sizes that take no time, and say what they are asked to say."""

from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bench import figures
from bench.queues import __main__ as command
from bench.queues import exhaustive, kai, kueue, openb, optimality, thousand_queues
from bench.queues.queue_alone import Piece, evictions
from bench.queues.virtual_time import Change, Course, Job, Run, percentile_s
from gpufleet.engine import event
from gpufleet.model.identifiers import NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import CPU, PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.resources import Resources
from gpufleet.model.shape import Shape

SECOND_US = 1_000_000


def cores(name: str, queue: str, count: int, arrives_s: int, runs_s: int) -> Job:
    pod = Pod(
        PodUid(name),
        Shape(Resources(1000 * count)),
        name,
        QueueName(queue),
        created_at_us=arrives_s * SECOND_US,
    )
    return Job("all", pod, runs_s * SECOND_US)


def two_teams() -> list[event.Event]:
    """Four cores, of which each of two queues owns two and may borrow the rest."""
    policy = PreemptionPolicy(within_queue=VictimScope.NEVER, reclaim=VictimScope.ANY)
    queues = [
        Queue(QueueName(name), parent=QueueName("all"), quotas=(Quota(CPU, 2000),), preemption=policy)
        for name in "ab"
    ]
    node = Node(NodeName("n"), Resources(4000, 1 << 30, 10))
    return [event.NodeSet(node), event.QueueSet(Queue(QueueName("all"))), *map(event.QueueSet, queues)]


def test_evicted_work_waits_again_and_loses_what_it_did() -> None:
    """By hand: a has all four cores from 1 s on; b takes two back at 3 s, so one of a's two pods has run two
    seconds for nothing, and starts anew when the other ends at 11 s.
    """
    jobs = [cores("a-0", "a", 2, 1, 10), cores("a-1", "a", 2, 1, 10), cores("b-0", "b", 2, 3, 20)]
    course = Run("best-fit", two_teams()).play(jobs)
    waits = course.waits["all"]
    assert waits.evictions == 1
    assert sorted(waits.first_us) == [0, 0, 0]
    assert sorted(waits.last_us) == [0, 0, 10 * SECOND_US]
    assert course.makespan_s == 23


def test_work_of_higher_priority_evicts_what_it_lacks_and_no_more() -> None:
    """By hand: four pieces of five cores run when one of twenty comes. All go, and run again when it has
    ended. One of ten that lacks five cores takes those of one.
    """
    small = [Piece(1, 0, 10, 5)] * 4
    assert evictions([*small, Piece(2, 5, 10, 20)], 20) == 4
    assert evictions([*small[:3], Piece(2, 5, 10, 10)], 20) == 1
    assert evictions([*small, Piece(1, 5, 10, 20)], 20) == 0


def test_who_is_told_to_look_again_is_looked_at_though_nothing_happens() -> None:
    """By hand: a's pods may not be taken back before they have run for 8 s, so b's starts at 9 s."""
    policy = PreemptionPolicy(
        within_queue=VictimScope.NEVER, reclaim=VictimScope.ANY, reclaim_after_us=8 * SECOND_US
    )
    kept = Queue(QueueName("a"), parent=QueueName("all"), quotas=(Quota(CPU, 2000),), preemption=policy)
    jobs = [cores("a-0", "a", 2, 1, 100), cores("a-1", "a", 2, 1, 100), cores("b-0", "b", 2, 3, 5)]
    setting = [*two_teams(), event.QueueSet(kept)]
    course = Run("best-fit", setting, confirmed=True).play(jobs)
    assert sorted(course.waits["all"].first_us) == [0, 0, 6 * SECOND_US]


def test_percentiles_are_nearest_ranks() -> None:
    waits_us = [second * SECOND_US for second in range(1, 21)]
    assert [percentile_s(waits_us, percent) for percent in (50, 95, 99)] == [10, 19, 20]


def test_kueues_generators_in_small() -> None:
    small = msgspec.structs.replace(
        kueue.BASELINE,
        cohorts=1,
        queues=2,
        classes=tuple(msgspec.structs.replace(one, count=3) for one in kueue.BASELINE.classes),
    )
    found = {one.name: one for one in kueue.figures(small)}
    # The last large one arrives at 3.6 s and runs for one second.
    assert found["Kueue baseline: makespan (target: Kueue's)"].value >= 4.6
    assert found["Kueue baseline: makespan (target: Kueue's)"].target == 351
    assert {one.better for one in found.values()} == {"lower"}


def test_kais_cases_in_small() -> None:
    found = kai.figures(rounds=1, nodes=12)
    assert len(found) == 2 * len(kai.CASES)
    assert all(one.value > 0 for one in found)


def test_a_thousand_queues_in_small() -> None:
    size = thousand_queues.Size(nodes=10, branches=2, pending=50, ending=(10, 5))
    measured = thousand_queues.measure(size)
    assert measured.started == {10: 10, 5: 5}
    found = thousand_queues.figures_of(measured, size)
    assert len(found) == 5
    assert all(one.value > 0 and one.target is None for one in found)


def test_a_thousand_queues_are_judged_at_full_size() -> None:
    measured = thousand_queues.Measured(
        set_up_s=1,
        submit_s=3,
        cycle_s={1000: 0.15, 10: 0.021},
        started={1000: 1000, 10: 10},
        idle_s=0,
        peak_rss_mib=400,
    )
    found = thousand_queues.figures_of(measured, thousand_queues.FULL)
    assert [one.met for one in found] == [True, False, None, False, True]


def test_gaps_in_small() -> None:
    found = [*exhaustive.figures(range(3)), *optimality.figures(range(1), range(1))]
    assert {one.unit for one in found if "beyond" in one.name} == {"%"}
    assert min(one.value for one in found) >= 0


def test_jains_index() -> None:
    assert openb.jain([0.25, 0.25, 0.25, 0.25]) == 1
    assert openb.jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert openb.jain([0.0, 0.0]) == 1


def test_fairness_is_of_those_who_wait() -> None:
    """By hand: a holds a little, b nothing; both wait from 2 s to 5 s, and Jain's index is 1/2 then."""
    read = openb.trace(tasks=4)
    uids = [job.pod.uid for job in read.jobs]
    team = dict(zip(uids, map(QueueName, "aabb"), strict=True))
    whole = read.jobs[0].pod.shape
    jobs = tuple(
        msgspec.structs.replace(job, pod=msgspec.structs.replace(job.pod, shape=whole)) for job in read.jobs
    )
    changes = [
        Change(0, "waits", uids[0]),
        Change(0, "runs", uids[0]),
        Change(1 * SECOND_US, "waits", uids[1]),
        Change(2 * SECOND_US, "waits", uids[2]),
        Change(5 * SECOND_US, "runs", uids[2]),
        Change(9 * SECOND_US, "leaves", uids[0]),
    ]
    course = Course(changes=changes)
    assert openb.fairness(course, openb.Trace(read.nodes, jobs, team)) == [
        (0, 0, 0, 1),
        (1, 0, 0, 1),
        (1, 1, 1, 1),
        (3, 2, 2, 0.5),
        (4, 1, 1, 1),
    ]


def test_reservations_are_judged_beside_the_same_way_without_them() -> None:
    waits_s = {"queues, work lost first, nothing reserved": 7.0}
    assert openb.bars_of("queues, work lost first, run times learned", waits_s) == {"all": 2700, "8": 7}
    assert openb.bars_of("queues, run times learned", waits_s) == {"all": 2700}
    assert openb.bars_of("queues", waits_s) == {}


def test_the_trace_with_teams_in_small() -> None:
    names = {one.name for one in openb.figures(tasks=200)}
    for way in ("queues", "queues, work lost first, nothing reserved", "FIFO", "best-effort"):
        assert {f"openb, {way}: wait, all, mean", f"openb, {way}: evictions"} <= names


def one_figure(name: str, value: float) -> list[figures.Figure]:
    return [figures.figure(name, value, "s", "lower", 1.0)]


def test_parts_are_kept_and_published_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    for number, part in enumerate(("kai", "openb")):
        monkeypatch.setitem(command.PARTS, part, partial(one_figure, part, number))
    assert CliRunner().invoke(command.main, ["openb"]).exit_code == 0
    assert CliRunner().invoke(command.main, ["--add", "kai"]).exit_code == 0
    written = msgspec.json.decode((tmp_path / "queues.json").read_bytes())
    assert written == [
        {"name": "kai", "value": 0, "unit": "s", "target": 1, "better": "lower", "met": True},
        {"name": "openb", "value": 1, "unit": "s", "target": 1, "better": "lower", "met": True},
    ]
