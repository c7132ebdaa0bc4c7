"""A quick reject is right: a search finds no victim either. A fleet shared as owed rejects all work."""

import random

import msgspec
import numpy as np
import pytest

from gpufleet.engine import event
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.quick_reject import QuickReject
from gpufleet.engine.preempt.ranks import rank_of
from gpufleet.engine.preempt.victim_search import PreemptionSearch, SearchRun
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.fleet_builder import Story, node, pod, shape
from tests.engine.preempt.arena import random_tree

ROOT = QueueName("all")


class Doubting(PreemptionSearch):
    """Searches all the same where work is rejected."""

    def __init__(self) -> None:
        super().__init__()
        self.searched = 0
        self.rejected = 0
        self.rejected_while_pods_leave = 0
        self.rejected_by_the_fleet = 0

    def find(self, asking: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan | None:
        """What is found, and nothing where work is rejected."""
        rank = rank_of(asking, state)
        queue = state.waiting.queues.get(rank.queue)
        lacks_quota = state.gate.is_active and state.gate.keeps_out(asking.row)
        reject = QuickReject(state)
        if queue is not None and reject.finds_none_in_fleet([(queue, rank.priority)]):
            self.rejected_by_the_fleet += 1
            assert not reject.may_find(rank.priority, queue, lacks_quota=lacks_quota)
        asked = asking.workload.asked(state.gate) if asking.workload.is_single else None
        if queue is not None and not reject.may_find(
            rank.priority, queue, lacks_quota=lacks_quota, asked=asked
        ):
            self.rejected_while_pods_leave += bool(state.departures.announced or state.departures.evicted)
            self.rejected += 1
            assert SearchRun(asking, state).find(rank, queue) == NoEvictionPlan()
        elif queue is not None:
            self.searched += 1
        return super().find(asking, state)


def test_a_search_for_rejected_work_finds_no_victim() -> None:
    doubting = Doubting()
    for seed in range(60):
        chance = random.Random(seed)
        story = Story(victims=doubting)
        queues = [*random_tree(chance, 8), *another_tree(chance)]
        story.happen(*(event.QueueSet(queue) for queue in queues))
        story.nodes(node("a", 4), node("b", 4))
        names = [queue.name for queue in queues] + ["default"] * (seed % 3 == 0)
        running: list[Pod] = []
        for number in range(25):
            story.at_us += 1
            priority = chance.choice((0, 0, 0, 1)) if seed % 2 else 0
            asked = shape(chance.randint(1, 3))
            running.append(pod(f"p{number}", asked, queue=chance.choice(names), priority=priority))
            story.arrive(running[-1])
            if chance.random() < 0.3:
                story.depart(running.pop(chance.randrange(len(running))).uid)
            if running and chance.random() < 0.3:
                ending = running.pop(chance.randrange(len(running)))
                story.happen(event.PodAdded(msgspec.structs.replace(ending, leaving=True)))
    assert doubting.rejected > 50
    assert doubting.rejected_by_the_fleet > 10
    assert doubting.rejected_while_pods_leave > 10
    assert doubting.searched > 50


def another_tree(chance: random.Random) -> list[Queue]:
    """Two queues of one root beside the tree, each of which owns up to two GPUs."""
    root = QueueName("other")
    owned = {name: (Quota(GPU, 1000 * chance.randint(0, 2)),) for name in ("other-a", "other-b")}
    return [
        Queue(root),
        *(Queue(QueueName(name), parent=root, quotas=quotas) for name, quotas in owned.items()),
    ]


def fleet(*, a_gpus: int, b_gpus: int, policy: PreemptionPolicy | None = None) -> Story:
    """Two queues that own 2 of 5 GPUs each, and as many running pods of one GPU in each."""
    story = Story()
    story.nodes(node("n", 5))
    story.happen(event.QueueSet(Queue(ROOT)), *(owner(name, 2000, policy) for name in ("a", "b")))
    story.arrive(*(pod(f"a{number}", shape(1), queue="a", priority=5) for number in range(a_gpus)))
    story.arrive(*(pod(f"b{number}", shape(1), queue="b", priority=5) for number in range(b_gpus)))
    return story


def owner(name: str, gpu_milli: int, policy: PreemptionPolicy | None = None) -> event.QueueSet:
    """A queue that owns so much, and may evict whom it may."""
    quota = (Quota(GPU, gpu_milli),)
    announced = Queue(QueueName(name), parent=ROOT, quotas=quota, preemption=policy or PreemptionPolicy())
    return event.QueueSet(announced)


def may_find(reject: QuickReject, priority: int = 5, *, lacks_quota: bool = False) -> bool:
    """Whether work of queue a may find victims."""
    return reject.may_find(priority, reject.state.waiting.queues[QueueName("a")], lacks_quota=lacks_quota)


def test_where_nobody_borrows_nobody_can_be_reclaimed_from() -> None:
    assert not may_find(QuickReject(fleet(a_gpus=2, b_gpus=2).engine.state))


def test_where_somebody_borrows_they_may_be() -> None:
    assert may_find(QuickReject(fleet(a_gpus=1, b_gpus=3).engine.state))


def with_a_borrower(*, a_gpus: int, policy: PreemptionPolicy | None = None) -> Story:
    """Beside them a queue that owns one GPU of the five, which b has borrowed."""
    story = fleet(a_gpus=a_gpus, b_gpus=2, policy=policy)
    story.happen(owner("idle", 1000))
    story.arrive(pod("borrows", shape(1), queue="b", priority=5))
    return story


def may_find_for_one_gpu(story: Story) -> bool:
    """Whether work of queue a that asks for one GPU more, as its first pod does, may find victims."""
    state = story.engine.state
    asked = state.workloads.single(state.pods.row_by_uid[PodUid("a0")]).asked(state.gate)
    queue = state.waiting.queues[QueueName("a")]
    assert QuickReject(state).may_find(5, queue, lacks_quota=False)
    return QuickReject(state).may_find(5, queue, lacks_quota=False, asked=asked)


def test_a_queue_that_has_its_own_takes_back_nothing_however_much_others_borrow() -> None:
    assert not may_find_for_one_gpu(with_a_borrower(a_gpus=2))
    assert may_find_for_one_gpu(with_a_borrower(a_gpus=1))


def test_only_what_is_borrowed_of_that_which_is_asked_for_can_be_taken_back() -> None:
    story = with_a_borrower(a_gpus=1)
    state = story.engine.state
    nothing_asked = np.zeros_like(state.gate.asked(state.pods.row_by_uid[PodUid("a0")]))
    queue = state.waiting.queues[QueueName("a")]
    assert not QuickReject(state).may_find(5, queue, lacks_quota=False, asked=nothing_asked)
    assert may_find_for_one_gpu(story)


def finds_none_beside(story: Story, waits: str, *reserved: str) -> bool:
    """Whether sums tell that a pod finds no victim, whatever becomes of the places of others."""
    rows = story.engine.state.pods.row_by_uid
    reject = QuickReject(story.engine.state)
    return reject.finds_none_beside([rows[PodUid(waits)]], [rows[PodUid(uid)] for uid in reserved])


def test_a_place_that_is_put_aside_is_one_more_that_its_queue_is_owed() -> None:
    story = with_a_borrower(a_gpus=2)
    assert finds_none_beside(story, "a0")
    # Without a1 the queue has one of the two that it owns, so it takes back what b has borrowed.
    assert not finds_none_beside(story, "a0", "a1")


def test_it_may_evict_while_it_borrows_if_its_policy_says_so() -> None:
    assert may_find_for_one_gpu(with_a_borrower(a_gpus=2, policy=PreemptionPolicy(borrowing=VictimScope.ANY)))


def test_a_queue_that_has_its_own_is_owed_what_the_queue_above_it_owns_besides() -> None:
    story = with_a_borrower(a_gpus=2)
    above = Queue(QueueName("above"), parent=ROOT, quotas=(Quota(GPU, 1000),))
    moved = msgspec.structs.replace(story.engine.state.waiting.queues[QueueName("a")], parent=above.name)
    story.happen(event.QueueSet(above), event.QueueSet(moved))
    assert may_find_for_one_gpu(story)


def test_a_place_a_queue_and_work_that_owns_nothing_each_end_the_rejection() -> None:
    placed, cut, owning_nothing = (fleet(a_gpus=2, b_gpus=2) for _ in range(3))
    rejects = [QuickReject(story.engine.state) for story in (placed, cut, owning_nothing)]
    assert not any(map(may_find, rejects))
    # a has 2 of its 2, so b may borrow what a third queue owns.
    placed.happen(owner("idle", 1000))
    placed.arrive(pod("more", shape(1), queue="b", priority=5))
    cut.happen(owner("b", 1000))
    owning_nothing.arrive(pod("stray", shape(1), priority=5))
    assert all(map(may_find, rejects))


def rejects_all(story: Story, *priorities: int) -> bool:
    """Whether sums of the fleet reject work of both queues, of these priorities."""
    state = story.engine.state
    kinds = [(state.waiting.queues[QueueName(name)], one) for name in ("a", "b") for one in priorities]
    return QuickReject(state).finds_none_in_fleet(kinds)


def test_the_fleet_rejects_all_together_where_nobody_borrows_leaves_or_is_of_lower_priority() -> None:
    story = fleet(a_gpus=2, b_gpus=2)
    assert rejects_all(story, 4, 5)
    assert not rejects_all(story, 5, 6)
    assert not rejects_all(fleet(a_gpus=1, b_gpus=3), 5)
    assert not rejects_all(fleet(a_gpus=2, b_gpus=2, policy=PreemptionPolicy(VictimScope.ANY)), 5)
    story.told_to_end("a0")
    assert not rejects_all(story, 5)


def test_lower_priority_in_its_queue_ends_the_rejection() -> None:
    assert may_find(QuickReject(fleet(a_gpus=2, b_gpus=2).engine.state), priority=6)


def test_lower_priority_in_another_queue_does_not() -> None:
    story = fleet(a_gpus=2, b_gpus=1)
    story.arrive(pod("low", shape(1), queue="b", priority=1))
    assert not may_find(QuickReject(story.engine.state))


def test_lower_priority_that_waits_does_not() -> None:
    story = fleet(a_gpus=2, b_gpus=2)
    story.arrive(pod("low", shape(2), queue="a", priority=1))
    assert not may_find(QuickReject(story.engine.state))
    reject = QuickReject(story.engine.state)
    assert not may_find(reject)
    story.depart("a0", "a1")
    assert may_find(reject)


def test_another_tree_that_borrows_lends_nothing() -> None:
    story = fleet(a_gpus=2, b_gpus=2)
    story.nodes(node("m", 3))
    other = Queue(QueueName("other"), quotas=(Quota(GPU, 2000),))
    lender = event.QueueSet(Queue(QueueName("idle"), parent=QueueName("other"), quotas=(Quota(GPU, 2000),)))
    taker = event.QueueSet(Queue(QueueName("taker"), parent=QueueName("other"), quotas=(Quota(GPU, 1000),)))
    story.happen(event.QueueSet(other), lender, taker)
    story.arrive(*(pod(f"t{number}", shape(1), queue="taker", priority=5) for number in range(3)))
    assert not may_find(QuickReject(story.engine.state))


@pytest.mark.parametrize(("queue", "rejects"), [("a", False), ("other", True)])
def test_pods_that_leave_help_work_that_lacks_quota_in_their_tree_alone(queue: str, rejects: bool) -> None:
    story = fleet(a_gpus=1, b_gpus=2)
    story.nodes(node("m", 3))
    story.happen(event.QueueSet(Queue(QueueName("other"), quotas=(Quota(GPU, 2000),))))
    leaving = pod("leaving", shape(1), queue=queue, priority=5)
    story.arrive(leaving)
    story.happen(event.PodAdded(msgspec.structs.replace(leaving, leaving=True)))
    reject = QuickReject(story.engine.state)
    assert may_find(reject)
    assert may_find(reject, lacks_quota=True) is not rejects


def test_what_leaves_counts_in_the_tree_in_which_its_queue_is_by_now() -> None:
    story = fleet(a_gpus=1, b_gpus=2)
    other = Queue(QueueName("other"), quotas=(Quota(GPU, 2000),))
    story.happen(event.QueueSet(other))
    leaving = pod("leaving", shape(1), queue="other", priority=5)
    story.arrive(leaving)
    story.happen(event.PodAdded(msgspec.structs.replace(leaving, leaving=True)))
    reject = QuickReject(story.engine.state)
    assert not may_find(reject, lacks_quota=True)
    story.happen(event.QueueSet(msgspec.structs.replace(other, parent=ROOT)))
    assert may_find(reject, lacks_quota=True)


@pytest.mark.parametrize("priority", [5, 6])
def test_who_may_evict_nobody_has_none(priority: int) -> None:
    never = PreemptionPolicy(within_queue=VictimScope.NEVER, reclaim=VictimScope.NEVER)
    assert not may_find(QuickReject(fleet(a_gpus=1, b_gpus=3, policy=never).engine.state), priority)
