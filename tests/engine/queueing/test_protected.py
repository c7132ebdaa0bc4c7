"""Work that is never evicted has of each resource no more than its queue's own nominal amount."""

import msgspec
import numpy as np
import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays import layout
from gpufleet.engine.explanations.sentences import explain
from gpufleet.engine.instruction import QuotaLimit
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from tests.engine.fleet_builder import Story, evicted, gang, members, node, placed, pod, refused, shape, share
from tests.engine.queueing.queue_builder import queue, quota
from tests.engine.queueing.test_gate import GPUS, shared_tree, short, story, verdict


def fixed(uid: str, gpus: int = 1, *, team: str = "a", priority: int = 0) -> Pod:
    """A pod that nobody may evict."""
    return pod(uid, shape(gpus), queue=team, priority=priority, preemptible=False)


def soft(uid: str, gpus: int = 1, *, team: str = "a", priority: int = 0) -> Pod:
    """A pod that may be evicted."""
    return pod(uid, shape(gpus), queue=team, priority=priority)


def fixed_members(name: str, count: int) -> list[Pod]:
    """The pods of a gang, none of which anybody may evict."""
    return [msgspec.structs.replace(one, preemptible=False) for one in members(name, count, shape(1))]


def protected(told: Story, name: str) -> int:
    """The GPUs, in thousandths, that the protected work of a queue has of its nominal amount."""
    uses = {use.queue: use for use in told.engine.queue_report()}
    return {str(one.resource): one.protected for one in uses[QueueName(name)].resources}["gpu"]


def test_what_is_never_evicted_does_not_borrow_and_is_told_so() -> None:
    told = story(*shared_tree())
    said = told.arrive(*(fixed(f"f{number}") for number in range(6)))
    assert len(placed(said)) == 4
    assert refused(said) == ["f4", "f5"]
    found = verdict(told, "f4")
    assert found.quota == short("a", "gpu", QuotaLimit.PROTECTED, 4000, 1000, 4000, 1000)
    assert "it may not borrow; such work uses 4 GPUs of the 4 GPUs that queue a owns" in explain(
        found, shape(1)
    )


def test_other_work_of_the_queue_borrows_beside_it() -> None:
    told = story(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(5)), *(soft(f"s{number}") for number in range(4)))
    assert sorted(told.binds) == ["f0", "f1", "f2", "f3", "s0", "s1", "s2", "s3"]
    assert protected(told, "a") == 4000


def test_who_waits_starts_when_such_work_ends_and_not_when_other_work_does() -> None:
    told = story(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(5)), *(soft(f"s{number}") for number in range(4)))
    assert placed(told.depart("s0")) == []
    assert placed(told.depart("f0")) == ["f4"]


def test_a_sibling_takes_back_everything_that_was_borrowed_because_none_of_it_is_protected() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.queues(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(4)), *(soft(f"s{number}") for number in range(4)))
    said = told.arrive(*(soft(f"b{number}", team="b") for number in range(4)))
    assert sorted(evicted(said)) == ["s0", "s1", "s2", "s3"]


def test_nobody_is_evicted_for_work_that_only_the_end_of_protected_work_lets_in() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.queues(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(4)), *(soft(f"s{number}") for number in range(4)))
    assert evicted(told.arrive(fixed("more", priority=9))) == {}


def test_it_evicts_work_of_its_own_queue_where_its_own_nominal_amount_allows_it() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.queues(*shared_tree())
    told.arrive(*(soft(f"s{number}") for number in range(8)))
    assert len(evicted(told.arrive(fixed("first", 4, priority=9)))) == 4
    assert protected(told, "a") == 0, "a place that is kept is not used yet"


def test_a_gang_is_let_in_as_a_whole_or_not_at_all() -> None:
    told = story(*shared_tree())
    told.gangs(gang("five", 5, queue="a"), gang("four", 4, queue="a"))
    assert placed(told.arrive(*fixed_members("five", 5))) == []
    assert len(placed(told.arrive(*fixed_members("four", 4)))) == 4


def test_of_an_elastic_gang_only_so_many_start_as_the_queue_owns() -> None:
    told = story(*shared_tree())
    told.gangs(gang("g", 2, queue="a"))
    told.arrive(*fixed_members("g", 6))
    assert len(told.binds) == 4


def test_who_may_borrow_starts_although_another_of_its_gang_may_not() -> None:
    told = story(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(4)))
    told.gangs(gang("g", 2, queue="a"))
    first, *others = members("g", 3, shape(1))
    told.arrive(msgspec.structs.replace(first, preemptible=False), *others)
    assert sorted(uid for uid in told.binds if uid.startswith("g")) == ["g-1", "g-2"]


def test_a_queue_that_states_nothing_counts_at_the_next_one_above_that_does() -> None:
    told = story(
        queue("root"),
        queue("dept", quota("gpu", 2 * GPUS), parent="root"),
        queue("named", quota("gpu", 3 * GPUS), parent="dept"),
        queue("plain", parent="dept"),
    )
    told.arrive(*(fixed(f"p{number}", team="plain") for number in range(4)))
    assert len(told.binds) == 2, "what the sibling owns stays out of reach"
    assert verdict(told, "p2").quota == short("dept", "gpu", QuotaLimit.PROTECTED, 2000, 1000, 2000, 1000)
    told.arrive(*(fixed(f"n{number}", team="named") for number in range(4)))
    assert len(told.binds) == 5
    assert (protected(told, "dept"), protected(told, "named"), protected(told, "plain")) == (2000, 3000, 0)


def test_a_queue_that_owns_nothing_of_a_resource_starts_none_of_it() -> None:
    told = story(queue("root", quota("gpu", 8 * GPUS)), queue("a", quota("gpu", 0), parent="root"))
    told.arrive(fixed("f"), soft("s"))
    assert list(told.binds) == ["s"]


def test_what_nobody_limits_is_not_limited_for_it_either() -> None:
    told = story(queue("a", quota("cpu", 100_000)))
    told.arrive(*(fixed(f"f{number}") for number in range(5)))
    assert len(told.binds) == 5


def test_each_resource_counts_by_itself() -> None:
    told = story(queue("a", quota("gpu", 4 * GPUS), quota("gpu/A100", 1 * GPUS)))
    told.arrive(fixed("one"), fixed("two"))
    assert verdict(told, "two").quota == short("a", "gpu/A100", QuotaLimit.PROTECTED, 1000, 1000, 1000, 1000)


def test_a_share_counts_for_the_part_of_the_device_that_it_keeps() -> None:
    told = story(*shared_tree())
    told.arrive(pod("half", share(500), queue="a", preemptible=False))
    assert protected(told, "a") == 500


def test_devices_of_which_it_may_have_no_more_are_not_shown_to_it() -> None:
    told = story(
        queue("root"),
        queue("a", quota("gpu/A100", 0), quota("gpu/T4", 1 * GPUS), parent="root"),
        queue("b", quota("gpu/A100", 4 * GPUS), parent="root"),
    )
    told.nodes(node("t", 2, model="T4"))
    told.arrive(pod("f", shape(1), queue="a", preemptible=False))
    assert told.binds["f"][0] == "t"


def test_usage_is_rebuilt_from_what_runs_and_running_work_beyond_it_evicts_nobody() -> None:
    told = story(*shared_tree())
    for number in range(6):
        told.run_on(fixed(f"f{number}"), "n", f"n/{number}")
    assert protected(told, "a") == 6000
    assert placed(told.arrive(fixed("more"))) == []
    assert placed(told.depart("f0", "f1")) == []
    assert placed(told.depart("f2")) == ["more"]


def test_quota_that_is_stated_later_counts_who_runs_already() -> None:
    told = story(queue("a"))
    told.arrive(*(fixed(f"f{number}") for number in range(3)))
    told.queues(queue("a", quota("gpu", 3 * GPUS)))
    assert protected(told, "a") == 3000
    assert placed(told.arrive(fixed("more"))) == []


def test_work_that_is_protected_no_more_counts_no_more() -> None:
    told = story(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(5)))
    assert placed(told.happen(event.PodAdded(soft("f0")))) == ["f4"]
    assert protected(told, "a") == 4000


def test_a_waiting_pod_that_is_protected_no_more_may_borrow() -> None:
    told = story(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(5)))
    assert placed(told.happen(event.PodAdded(soft("f4")))) == ["f4"]


def test_who_would_not_evict_others_is_not_protected_by_that() -> None:
    told = story(*shared_tree())
    told.arrive(*(pod(f"p{number}", shape(1), queue="a", preempts=False) for number in range(6)))
    assert len(told.binds) == 6


def test_a_trial_leaves_no_trace() -> None:
    told = story(*shared_tree())
    told.arrive(*(fixed(f"f{number}") for number in range(3)))
    state = told.engine.state
    before = state.store.tables.queue_protected.copy()
    with state.trial() as trial:
        trial.release(PodUid("f0"))
        assert not np.array_equal(before, state.store.tables.queue_protected)
    assert np.array_equal(before, state.store.tables.queue_protected)


@pytest.mark.parametrize("queues", [shared_tree(), (queue("a"),)])
def test_where_nothing_is_protected_nothing_is_counted(queues: tuple[Queue, ...]) -> None:
    told = story(*queues)
    told.arrive(*(soft(f"s{number}") for number in range(4)))
    assert not told.engine.state.store.tables.queue_protected.any()
    assert not told.engine.state.pods.any_is_protected
    assert not told.engine.state.store.tables.pods[layout.POD_PROTECTED].any()
