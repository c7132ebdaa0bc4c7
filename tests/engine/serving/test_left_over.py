"""What victims leave beyond what is needed goes to parked work in the step in which they are told to end."""

from gpufleet.engine.serving.left_over import WOKEN_MAX
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import GPU, Queue, Quota
from tests.engine.fleet_builder import Story, evicted, gang, node, nominated, pod, shape

LONG_S = 3600
"""Work that has run for so long may be evicted by every policy."""


def two_queues(gpus: int) -> Story:
    """A node on which queue "borrower" uses all, half of it borrowed from "lender"."""
    told = Story()
    told.nodes(node("n", gpus))
    half = gpus // 2
    told.queues(
        Queue(QueueName("root"), quotas=(Quota(GPU, 0),)),
        Queue(QueueName("lender"), parent=QueueName("root"), quotas=(Quota(GPU, half * WHOLE_GPU_MILLI),)),
        Queue(QueueName("borrower"), parent=QueueName("root"), quotas=(Quota(GPU, half * WHOLE_GPU_MILLI),)),
    )
    return told


def test_a_gang_that_ends_for_one_pod_leaves_places_that_the_next_pods_of_the_lender_get_at_once() -> None:
    """The gang holds four GPUs, and the first pod of the lender needs one of the two that are owed."""
    told = two_queues(4)
    told.gangs(gang("borrows", 4, queue="borrower"))
    told.arrive(*(pod(f"borrows-{n}", shape(1), gang="borrows", queue="borrower") for n in range(4)))
    told.wait_s(LONG_S)
    said = told.arrive(pod("a", shape(1), queue="lender"), pod("b", shape(1), queue="lender"))
    assert len(evicted(said)) == 4
    assert set(nominated(said)) == {"a", "b"}


def test_nothing_is_offered_where_each_pod_takes_the_place_of_an_equal_one() -> None:
    told = two_queues(2)
    told.arrive(*(pod(f"low-{n}", shape(1), queue="borrower") for n in range(2)))
    told.wait_s(LONG_S)
    said = told.arrive(pod("a", shape(1), queue="lender"), pod("b", shape(1), queue="lender"))
    assert len(evicted(said)) == 1
    assert set(nominated(said)) == {"a"}


def test_a_step_ends_though_more_lines_wait_than_are_looked_at_again() -> None:
    """Each pod has a line of its own. Of the four GPUs that the gang leaves two are owed, and two are
    free for all: the gang itself has no place for four members.
    """
    told = two_queues(4)
    told.gangs(gang("borrows", 4, queue="borrower"))
    told.arrive(*(pod(f"borrows-{n}", shape(1), gang="borrows", queue="borrower") for n in range(4)))
    told.wait_s(LONG_S)
    waiting = [pod(f"w{n}", shape(1, cpu_milli=100 + n), queue="lender") for n in range(WOKEN_MAX + 9)]
    said = told.arrive(*waiting)
    assert len(evicted(said)) == 4
    assert len(nominated(said)) == 4
