"""One pod for one: immunity does not keep a queue from a place where shares are closer together then."""

import pytest

from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import Story, evicted, gang, node, pod, shape
from tests.engine.preempt.test_reclaim import SHARES, queue

ONE, TWO = shape(1), shape(2)


def immune(*, needs: Shape = ONE, count: int = 2, priority: int = 0, own: int = 0) -> Story:
    """Queue b has all of two GPUs, and its pods came to their places at the cost of queue a."""
    told = Story()
    told.happen(
        queue("all", 2 - own, parent=None),
        queue("a", 0, preemption=SHARES, weight_milli=2000),
        queue("b", own, preemption=SHARES),
    )
    told.nodes(node("n", 2))
    told.arrive(*(pod(f"b{number}", needs, queue="b", priority=priority) for number in range(count)))
    told.at_us += 1_000_000
    uids = [PodUid(f"b{number}") for number in range(count)]
    told.engine.state.eviction_immunity.add(uids, frozenset({QueueName("a")}))
    return told


def test_one_of_two_goes_and_the_other_stays() -> None:
    told = immune()
    assert evicted(told.arrive(pod("a0", ONE, queue="a", priority=1))) == {"b0": "a0"}
    told.depart("b0")
    assert evicted(told.arrive(pod("a1", ONE, queue="a", priority=1))) == {}, "shares are equal"


def test_what_asks_for_more_than_was_needed_or_has_a_higher_priority_stays() -> None:
    assert evicted(immune(needs=TWO, count=1).arrive(pod("a0", ONE, queue="a", priority=1))) == {}
    assert evicted(immune(priority=2).arrive(pod("a0", ONE, queue="a", priority=1))) == {}


def test_a_gang_takes_nothing_so() -> None:
    told = immune()
    told.gangs(gang("g", 1, queue="a"))
    assert evicted(told.arrive(pod("g0", ONE, queue="a", gang="g"))) == {}


@pytest.mark.parametrize(("own", "victims"), [(1, {"b0": "a0"}), (2, {})])
def test_queues_keep_their_nominal_amounts(own: int, victims: dict[str, str]) -> None:
    told = immune(own=own)
    assert evicted(told.arrive(pod("a0", ONE, queue="a"))) == victims
