"""A quick reject is right: a search finds no victim either. A fleet shared as owed rejects all work."""

import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.quick_reject import QuickReject
from gpufleet.engine.preempt.victim_search import PreemptionSearch, SearchRun, rank_of
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload
from gpufleet.model.identifiers import QueueName
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

    def find(self, asking: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan | None:
        """What is found, and nothing where work is rejected."""
        rank = rank_of(asking, state)
        queue = state.waiting.queues.get(rank.queue)
        if queue is not None and not QuickReject(state).may_find(rank.priority, queue):
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
        queues = random_tree(chance, 8)
        story.happen(*(event.QueueSet(queue) for queue in queues))
        story.nodes(node("a", 4), node("b", 4))
        names = [queue.name for queue in queues] + ["default"] * (seed % 3 == 0)
        running: list[str] = []
        for number in range(25):
            story.at_us += 1
            priority = chance.choice((0, 0, 0, 1)) if seed % 2 else 0
            story.arrive(
                pod(f"p{number}", shape(chance.randint(1, 3)), queue=chance.choice(names), priority=priority)
            )
            running.append(f"p{number}")
            if chance.random() < 0.3:
                story.depart(running.pop(chance.randrange(len(running))))
    assert doubting.rejected > 50
    assert doubting.searched > 50


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
    told = Queue(QueueName(name), parent=ROOT, quotas=quota, preemption=policy or PreemptionPolicy())
    return event.QueueSet(told)


def may_find(reject: QuickReject, priority: int = 5) -> bool:
    """Whether work of queue a may find victims."""
    return reject.may_find(priority, reject.state.waiting.queues[QueueName("a")])


def test_where_nobody_borrows_nobody_can_be_reclaimed_from() -> None:
    assert not may_find(QuickReject(fleet(a_gpus=2, b_gpus=2).engine.state))


def test_where_somebody_borrows_they_may_be() -> None:
    assert may_find(QuickReject(fleet(a_gpus=1, b_gpus=3).engine.state))


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


def test_lower_priority_anywhere_ends_the_rejection() -> None:
    assert may_find(QuickReject(fleet(a_gpus=2, b_gpus=2).engine.state), priority=6)


@pytest.mark.parametrize("priority", [5, 6])
def test_who_may_evict_nobody_has_none(priority: int) -> None:
    never = PreemptionPolicy(within_queue=VictimScope.NEVER, reclaim=VictimScope.NEVER)
    assert not may_find(QuickReject(fleet(a_gpus=1, b_gpus=3, policy=never).engine.state), priority)
