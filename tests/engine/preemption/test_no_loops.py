"""Nobody evicts each other for ever: random trees on a treadmill, and loops by hand."""

import pytest

from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.model.queue import CPU, GPU, PreemptionPolicy, Prey, Queue, Quota
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, shape
from tests.engine.preemption.treadmill import Treadmill, random_treadmill

ROUNDS_MAX = 60
EAGER = PreemptionPolicy(reclaim=Prey.ANY, borrowing=Prey.ANY)


@pytest.mark.parametrize("seed", seeds(100))
def test_without_arrivals_evictions_come_to_an_end(seed: int) -> None:
    told = random_treadmill(seed)
    before = len(told.evictions)
    pods = len(told.known())
    assert told.rounds_to_rest(ROUNDS_MAX) < ROUNDS_MAX, "they still evict each other"
    assert len(told.evictions) - before <= pods * pods


def teams(told: Story, *described: Queue) -> Treadmill:
    """Queues below one root that owns all of four GPUs and eight cores."""
    told.nodes(node("n", 4, cpu_milli=8000))
    root = Queue(QueueName("all"), quotas=(Quota(GPU, 4000), Quota(CPU, 8000)))
    return Treadmill(told, (root, *described))


def team(name: str, policy: PreemptionPolicy = EAGER, **owns: int) -> Queue:
    """A team that owns so much, and may evict whomever its share allows."""
    quotas = tuple(Quota(QuotaResource(resource), amount) for resource, amount in owns.items())
    return Queue(QueueName(name), parent=QueueName("all"), quotas=quotas, preemption=policy)


def test_a_smaller_share_is_a_reason_though_the_others_larger_one_stays() -> None:
    """By hand: a has six of eight cores and the last GPU, b nothing. The GPU is a quarter for b, and a is
    left with its three quarters: b takes it, and a does not take it back.
    """
    told = teams(Story(), team("a"), team("b"), team("c", gpu=3000))
    told.arrive(*(told.pod(shape(1, cpu_milli=0), "c") for _ in range(3)))
    told.arrive(told.pod(shape(cpu_milli=6000), "a"), told.pod(shape(1, cpu_milli=0), "a"))
    told.arrive(told.pod(shape(1, cpu_milli=0), "b"))
    assert told.rounds_to_rest(ROUNDS_MAX) < ROUNDS_MAX
    assert [one.uid.split("-")[0] for one in told.evictions] == ["a"]
