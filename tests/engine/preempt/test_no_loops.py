"""Nobody evicts each other for ever: random trees on a treadmill, and loops by hand."""

import pytest

from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.model.queue import CPU, GPU, WEIGHT_ONE_MILLI, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, shape
from tests.engine.preempt.treadmill import Treadmill, random_treadmill

ROUNDS_MAX = 60
EAGER = PreemptionPolicy(reclaim=VictimScope.ANY, borrowing=VictimScope.ANY)


WENT_ROUND = (438, 773, 885, 959, 968, 1208)
"""Trees on which queues evicted each other for ever before work stood against those whom it had replaced."""


@pytest.mark.parametrize("seed", [*seeds(100), *WENT_ROUND])
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


def team(name: str, policy: PreemptionPolicy = EAGER, weight: int = 1, **owns: int) -> Queue:
    """A team that owns so much, and may evict whomever its share allows."""
    quotas = tuple(Quota(QuotaResource(resource), amount) for resource, amount in owns.items())
    return Queue(
        QueueName(name),
        parent=QueueName("all"),
        weight_milli=weight * WEIGHT_ONE_MILLI,
        quotas=quotas,
        preemption=policy,
    )


def test_equal_shares_of_something_else_are_no_reason_to_take() -> None:
    """By hand: a and b have half of the cores each, and c its own three GPUs. The fourth is a quarter: who
    has it has no larger dominant share for it, so each might take it from the other.
    """
    told = teams(Story(), team("a"), team("b"), team("c", gpu=3000))
    told.arrive(*(told.pod(shape(1, cpu_milli=0), "c") for _ in range(3)))
    told.arrive(*(told.pod(shape(cpu_milli=4000), name) for name in "ab"))
    told.arrive(told.pod(shape(1, cpu_milli=0), "a"))
    told.arrive(told.pod(shape(1, cpu_milli=0), "b"))
    assert told.rounds_to_rest(ROUNDS_MAX) < ROUNDS_MAX
    assert told.evictions == []


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


def test_who_takes_what_is_its_turn_and_has_then_the_larger_share_is_not_taken_from_in_turn() -> None:
    """By hand: c has two of four GPUs as its own; b has the others for weight 3, 2/3, and keeps 1/3. a of
    weight 2 has nothing, and then 1/2, which is more: all the same b leaves it.
    """
    told = teams(Story(), team("a", weight=2), team("b", weight=3), team("c", gpu=2000))
    told.arrive(*(told.pod(shape(1, cpu_milli=0), "c") for _ in range(2)))
    told.arrive(*(told.pod(shape(1, cpu_milli=0), "b") for _ in range(3)))
    told.arrive(*(told.pod(shape(1, cpu_milli=0), "a") for _ in range(2)))
    assert told.rounds_to_rest(ROUNDS_MAX) < ROUNDS_MAX
    assert [one.uid.split("-")[0] for one in told.evictions] == ["b"]


def test_what_is_owned_is_not_taken_because_something_else_is_borrowed() -> None:
    """By hand: a owns the last GPU and borrows all cores but one. b may not take that GPU for its core's
    sake: a would take it back at once, as its own.
    """
    told = teams(Story(), team("a", gpu=1000), team("b"), team("c", gpu=3000))
    told.arrive(*(told.pod(shape(1, cpu_milli=0), "c") for _ in range(3)))
    told.arrive(told.pod(shape(cpu_milli=7000), "a"), told.pod(shape(1, cpu_milli=0), "a"))
    told.arrive(told.pod(shape(1, cpu_milli=1000), "b"))
    assert told.rounds_to_rest(ROUNDS_MAX) < ROUNDS_MAX
    assert told.evictions == []
