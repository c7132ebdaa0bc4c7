"""By what a workload is compared with those that it may evict, and whether priority decides for it.

Work outside of every queue has a rule of its own; for the rest ``victim_search`` asks its queue's policy.
"""

from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.evictable_work import EvictableWork, Rank, evictable_within_queue
from gpufleet.engine.preempt.victims import UnplacedWorkload
from gpufleet.model.identifiers import DEFAULT_QUEUE
from gpufleet.model.queue import VictimScope


def rank_of(unplaced: UnplacedWorkload, state: EngineState) -> Rank:
    """By what the workload is compared with others: a gang has a queue, priority and age of its own."""
    ranked, first = unplaced.workload.ranked, state.pods.pod_at(unplaced.row)
    return Rank(ranked.queue, ranked.priority, ranked.created_at_us, not first.preemptible)


def is_outside(rank: Rank, state: EngineState) -> bool:
    """True if a workload is outside of every queue, so that priority decides: it names none that is
    described, or there is none.
    """
    queues = state.waiting.queues
    return rank.queue not in queues and (rank.queue == DEFAULT_QUEUE or not queues)


def evictable_outside_queues(unplaced: UnplacedWorkload, state: EngineState) -> EvictableWork | None:
    """What a workload of no queue may evict; None for one of a queue."""
    rank = rank_of(unplaced, state)
    if not is_outside(rank, state):
        return None
    may_evict = all(state.pods.pod_at(row).preempts for row in unplaced.rows)
    return evictable_within_queue(VictimScope.LOWER_PRIORITY if may_evict else VictimScope.NEVER, rank)
