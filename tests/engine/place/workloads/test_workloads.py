"""Workloads: a pod and a gang answer the same questions, and only what is described is a gang."""

import pytest

from gpufleet.engine.arrays import layout
from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.model.identifiers import GangName, QueueName
from gpufleet.model.queue import GPU, Queue, Quota
from tests.engine.fleet_builder import Story, gang, members, node, pod, shape
from tests.engine.state_digest import difference, digest


def workload_of(told: Story, uid: str) -> Workload:
    """The workload of a pod as the engine sees it now."""
    state = told.engine.state
    return state.workloads.of(state.pods.row_by_uid[pod(uid).uid])


def full_fleet() -> Story:
    """One GPU, which a pod has, and a queue without quota of its own beyond that."""
    told = Story()
    told.nodes(node("n0", 1))
    told.queues(Queue(QueueName("team"), quotas=(Quota(GPU, 8000),)))
    told.arrive(pod("runs", shape(1), queue="team"))
    return told


def test_a_single_pod_is_all_of_its_workload() -> None:
    told = full_fleet()
    told.arrive(pod("a", shape(1), queue="team", priority=3))
    one = workload_of(told, "a")
    row = told.engine.state.pods.row_by_uid[pod("a").uid]
    assert (one.name, one.title, one.rows, one.row, one.least) == ("a", "pod a", [row], row, 1)
    assert one.is_single
    assert one.is_ready
    assert one.must_start
    assert not one.joins_others
    assert (one.ranked.queue, one.ranked.priority) == ("team", 3)


def test_a_gang_asks_for_the_members_that_it_lacks() -> None:
    told = full_fleet()
    told.gangs(gang("g", 2, queue="team", priority=5))
    told.arrive(*members("g", 3, shape(1)))
    one, state = workload_of(told, "g-1"), told.engine.state
    assert (one.name, one.title, one.least) == ("g", "gang g", 2)
    assert one.rows == [state.pods.row_by_uid[pod(f"g-{number}").uid] for number in range(3)]
    assert one.row == one.rows[0]
    assert one.must_start
    assert not one.is_single
    assert (one.ranked.queue, one.ranked.priority) == ("team", 5)
    # Two GPUs of the three that its members ask for, in thousandths.
    column = state.queues.resources.column_by_name[GPU]
    assert one.asked(state.gate)[column] == 2000


def test_a_gang_that_has_its_minimum_grows_one_by_one() -> None:
    told = Story()
    told.nodes(node("n0", 2))
    told.gangs(gang("g", 2))
    told.arrive(*members("g", 3, shape(1)))
    one = workload_of(told, "g-2")
    assert one.least == 1
    assert not one.must_start
    assert not one.joins_others


def test_members_that_come_again_join_those_that_run() -> None:
    told = Story()
    told.nodes(node("n0", 2))
    told.gangs(gang("g", 2))
    told.arrive(*members("g", 2, shape(1)))
    told.depart("g-1")
    told.lose("n0")
    told.arrive(pod("again", shape(1), gang="g"))
    one = workload_of(told, "again")
    assert one.joins_others
    assert one.must_start


def test_a_pod_of_a_gang_that_is_not_described_is_asked_about_alone() -> None:
    told = Story()
    told.arrive(pod("a", shape(1), gang="unknown", queue="its-own"))
    state = told.engine.state
    row = state.pods.row_by_uid[pod("a").uid]
    assert state.workloads.lacks_gang(row)
    assert state.workloads.of(row).is_single
    assert state.workloads.ranked(row).queue == "its-own"
    assert state.workloads.of(row).name == "unknown"
    with pytest.raises(BrokenInvariantError):
        state.gangs.members(GangName("unknown")).described  # noqa: B018


def test_both_place_themselves_inside_a_trial_and_leave_no_trace() -> None:
    told = full_fleet()
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(pod("a", shape(1), queue="team"), *members("g", 2, shape(1)))
    told.happen()
    state = told.engine.state
    runs = state.pods.row_by_uid[pod("runs").uid]
    for uid, fits in (("a", True), ("g-0", False)):
        one, before = workload_of(told, uid), digest(state)
        with state.trial() as trial:
            assert one.place(trial) == []
        with state.trial() as trial:
            trial.release(pod("runs").uid)
            assert bool(one.place(trial)) is fits, "one GPU is enough for a pod and not for two members"
        assert difference(before, digest(state)) == []
    assert state.store.tables.pods[layout.POD_NODE, runs] != layout.NOT_SET


def test_members_that_wait_again_for_a_trial_have_their_nominations_after_it() -> None:
    told = full_fleet()
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(*members("g", 2, shape(1)))
    state = told.engine.state
    group = state.gangs.members(GangName("g"))
    kept, waits = group.waiting
    group.nominate(kept)
    before = digest(state)
    with state.trial() as trial:
        state.workloads.of_members(group).let_wait([kept], trial)
        assert list(group.waiting) == [kept, waits]
        assert not group.nominated
    assert difference(before, digest(state)) == []
