"""Which rule has no pod evicted for work that waits for room.

The rules are asked in the order in which the engine's search for victims asks them. That disruption budgets
keep pods is found by another way (``engine_run``) and comes first.
"""

from collections.abc import Iterator

from gpufleet.cluster.settings import BY_PRIORITY, Settings
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.preempt.candidates import outside_of_queues
from gpufleet.engine.preempt.evictable_work import Rank
from gpufleet.engine.preempt.ranks import is_outside
from gpufleet.engine.scheduler import Engine
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DEFAULT_QUEUE
from gpufleet.model.phrases import counted
from gpufleet.model.pod import Pod
from gpufleet.model.queue import VictimScope

RUNS = {PodState.ASSUMED, PodState.BOUND}


def why_no_eviction(engine: Engine, pod: Pod, gang: Gang | None, settings: Settings) -> list[str]:
    """One sentence, or none where the policies of queues say it."""
    ranked = pod if gang is None else gang
    rank = Rank(ranked.queue, ranked.priority, pod.created_at_us)
    if not pod.preempts:
        return ["no pod is evicted for its sake: its preemptionPolicy is Never"]
    if not is_outside(rank, engine.state):
        return _by_queue(engine, rank)
    if settings.victims != BY_PRIORITY:
        return ["no pod is evicted for its sake: preemption by priority is turned off (preemptByPriority)"]
    lower = list(_lower(engine, rank))
    where = " outside of every queue" if engine.state.waiting.queues else ""
    if not lower:
        none = f"none that runs{where} has a lower priority than its {rank.priority}"
        return [f"no pod is evicted for its sake: {none}"]
    few = f"the {counted(len(lower), 'pod')}{where} of a lower priority than its {rank.priority}"
    if not outside_of_queues(engine.state, rank, engine.at_us).any:
        return [f"no pod is evicted for its sake: {few} must stay{_stay(lower)}"]
    return [f"no pod is evicted for its sake: the end of {few} would not make room for it"]


def _by_queue(engine: Engine, rank: Rank) -> list[str]:
    """What the policy of a queue says, where that alone decides."""
    queue = engine.state.waiting.queues.get(rank.queue)
    if queue is None:
        return []
    policy = queue.preemption
    if {policy.within_queue, policy.reclaim, policy.borrowing} == {VictimScope.NEVER}:
        return [f"no pod is evicted for its sake: the preemption of queue {rank.queue} says Never"]
    return []


def _lower(engine: Engine, rank: Rank) -> Iterator[Pod]:
    """The pods of lower priority that run outside of every queue."""
    state = engine.state
    for uid, row in state.pods.row_by_uid.items():
        pod = state.pods.pod_at(row)
        gang = None if pod.gang is None else state.gangs.members(pod.gang).gang
        is_lower = (pod if gang is None else gang).priority < rank.priority
        outside = not state.waiting.queues or state.queue_of(row) == DEFAULT_QUEUE
        if is_lower and outside and state.pods.state(row) in RUNS and not state.departures.is_departing(uid):
            yield pod


def _stay(lower: list[Pod]) -> str:
    """Why pods of lower priority stay, in numbers."""
    services = sum(pod.is_service for pod in lower)
    protected = sum(not pod.preemptible for pod in lower)
    told = [
        f"{services} of another scheduler without a GPU" if services else "",
        f"{protected} of a class that is never evicted" if protected else "",
    ]
    words = ", ".join(filter(None, told))
    return f" ({words})" if words else ""
