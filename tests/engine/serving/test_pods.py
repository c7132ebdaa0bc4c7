"""A line of single pods: the first one starts, or all of them wait as it does."""

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import GPU, Queue, Quota
from tests.engine.fleet_builder import Story, evicted, node, nominated, placed, pod, refused, shape


def test_pods_of_a_line_start_one_after_the_other_until_the_first_that_has_no_place() -> None:
    """Five pods with two GPUs each on seven: three start, and the other two hear why they wait."""
    told = Story()
    told.nodes(node("n", 7))
    said = told.arrive(*(pod(name, shape(2)) for name in "abcde"))
    assert placed(said) == ["a", "b", "c"]
    assert refused(said) == ["d", "e"]


def test_what_is_parked_starts_when_its_turn_comes_again() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.arrive(pod("a", shape(2)), pod("b", shape(2)))
    assert placed(told.depart("a")) == ["b"]


def test_a_pod_that_was_told_why_it_waits_is_not_told_again() -> None:
    told = Story()
    told.nodes(node("n", 1))
    assert refused(told.arrive(pod("large", shape(2)))) == ["large"]
    told.nodes(node("m", 1))
    assert refused(told.wait_s(60)) == []


def test_a_pod_that_its_queue_keeps_out_does_not_keep_out_another_queue() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.queues(
        Queue(QueueName("full"), quotas=(Quota(GPU, 0),)),
        Queue(QueueName("free"), quotas=(Quota(GPU, 4 * WHOLE_GPU_MILLI),)),
    )
    said = told.arrive(pod("kept out", shape(1), queue="full"), pod("goes", shape(1), queue="free"))
    assert placed(said) == ["goes"]


def test_a_pod_without_a_place_takes_that_of_less_urgent_work_once_it_has_ended() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.arrive(pod("low", shape(1)))
    said = told.arrive(pod("high", shape(1), priority=9))
    assert evicted(said) == {"low": "high"}
    assert nominated(said) == {"high": ("n", ("low",))}
    assert placed(said) == []
    assert placed(told.depart("low")) == ["high"]
