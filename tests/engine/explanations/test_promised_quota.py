"""What is shown to node autoscalers is within quota together."""

from gpufleet.engine.explanations.promised_quota import COUNTS_US, STEPS_BACK_US
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import GangName, PodUid
from tests.engine.fleet_builder import Story, gang, members, node, pod, shape
from tests.engine.queueing.queue_builder import queue, quota

GPU = WHOLE_GPU_MILLI
ONE, OTHER = GangName("one"), GangName("other")


def story(*, one: str = "a", other: str = "a") -> Story:
    """Two gangs of two members with eight GPUs wait for nodes; queues a and b have 16 GPUs each, of 24."""
    told = Story()
    told.queues(
        queue("root", quota("gpu", 24 * GPU)),
        queue("a", quota("gpu", 0, borrow=16 * GPU), parent="root"),
        queue("b", quota("gpu", 0, borrow=16 * GPU), parent="root"),
    )
    told.gangs(gang("one", 2, queue=one), gang("other", 2, queue=other))
    for name, of in (("one", one), ("other", other)):
        told.arrive(*(pod(f"{name}-{number}", shape(8), gang=name, queue=of) for number in range(2)))
    return told


def test_of_two_gangs_that_are_within_quota_one_by_one_the_first_asks() -> None:
    promised = story().engine.promised_quota
    assert promised.promise(ONE, 0)
    assert not promised.promise(OTHER, 0)
    assert promised.promise(ONE, 1)


def test_quota_that_queues_share_counts_too() -> None:
    promised = story(other="b").engine.promised_quota
    assert promised.promise(ONE, 0)
    # Both have 16, and together 24.
    assert not promised.promise(OTHER, 0)


def test_work_that_no_longer_asks_and_work_that_is_gone_leave_their_quota_to_others() -> None:
    told = story()
    promised = told.engine.promised_quota
    assert promised.promise(ONE, 0)
    promised.withdraw(ONE)
    assert promised.promise(OTHER, 0)
    assert not promised.promise(ONE, 0)
    told.depart("other-0", "other-1")
    assert promised.promise(ONE, 0)


def test_work_that_starts_is_charged_once() -> None:
    told = story(other="b")
    promised = told.engine.promised_quota
    assert promised.promise(ONE, 0)
    told.nodes(node("n", 8), node("m", 8))
    assert set(told.binds) == {"one-0", "one-1"}
    told.arrive(*(pod(name, shape(8), queue="b") for name in ("single", "second")))
    # 16 of 24 run: eight are left, and no more.
    assert promised.promise(PodUid("single"), 0)
    assert not promised.promise(PodUid("second"), 0)


def test_work_that_its_own_queue_keeps_out_is_not_judged_here() -> None:
    told = story(other="b")
    told.nodes(node("n", 8), node("m", 8))
    assert told.engine.promised_quota.promise(OTHER, 0)


def test_nodes_that_do_not_come_let_others_ask() -> None:
    promised = story().engine.promised_quota
    assert promised.promise(ONE, 0)
    assert not promised.promise(OTHER, COUNTS_US - 1)
    assert promised.promise(OTHER, COUNTS_US)
    # It goes on asking for a moment, and then only beside the other.
    assert promised.promise(ONE, COUNTS_US + 1)
    assert not promised.promise(ONE, COUNTS_US + STEPS_BACK_US)
    assert promised.promise(ONE, 2 * COUNTS_US)


def test_without_queues_all_work_may_ask() -> None:
    told = Story()
    told.gangs(gang("one", 2))
    told.arrive(*members("one", 2, shape(8)))
    assert told.engine.promised_quota.promise(ONE, 0)


def test_a_question_changes_no_charge() -> None:
    told = story()
    before = told.engine.queue_report()
    told.engine.promised_quota.promise(ONE, 0)
    told.engine.promised_quota.promise(OTHER, 0)
    assert told.engine.queue_report() == before
