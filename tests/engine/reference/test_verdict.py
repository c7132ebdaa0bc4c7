"""The reference itself, against tables worked out by hand and facts published of Kueue.

Where a case is named after one of Kueue's, it is from TestHierarchicalPreemptions of its scheduler: the
tree, the amounts, the priorities, and which work was preempted. A cohort is a queue with queues below it.
"""

from collections.abc import Iterable

import pytest

from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.reference.picture import MILLI, Job, Machine, Picture, Run
from tests.engine.reference.quota import QuotaTree
from tests.engine.reference.verdict import Cause, best, shortage, starts

LOWER = PreemptionPolicy()
BORROWS_FROM_LOWER = PreemptionPolicy(borrowing=VictimScope.LOWER_PRIORITY, borrowing_priority_max=0)
SHARES = PreemptionPolicy(borrowing=VictimScope.ANY)


def queue(
    name: str,
    gpus: int = 0,
    parent: str | None = "r",
    policy: PreemptionPolicy = LOWER,
    *,
    priority: int = 0,
    weight_milli: int = 1000,
) -> Queue:
    """A queue that owns so many GPUs."""
    above = None if parent is None else QueueName(parent)
    return Queue(
        QueueName(name),
        priority,
        parent=above,
        weight_milli=weight_milli,
        quotas=(Quota(GPU, gpus * MILLI),),
        preemption=policy,
    )


ROOT = queue("r", parent=None)


def picture(
    queues: tuple[Queue, ...],
    jobs: Iterable[Job],
    asking: Job,
    *,
    gpus: int = 100,
    pods: dict[str, int] | None = None,
) -> Picture:
    """Jobs that run on a node, each with its minimum of pods or with ``pods``, and one that waits."""
    named = {job.name: job for job in (*jobs, asking)}
    counts = {name: job.minimum for name, job in named.items()} | (pods or {})
    by_pod = {f"{name}-{number}": name for name in named for number in range(counts[name])}
    runs = {pod: Run("n0", 0) for pod, name in by_pod.items() if name != asking.name}
    by_name = {str(one.name): one for one in queues}
    return Picture(1_000_000, by_name, (Machine("n0", gpus),), named, by_pod, runs)


def victims(seen: Picture, asking: Job) -> list[str] | None:
    """The jobs that go, each as often as pods of it do; None if the job waits."""
    tree = QuotaTree(seen.queues.values())
    assert not starts(seen, tree, asking)
    found = best(seen, tree, asking)
    if found is None:
        return None
    return sorted(seen.job_by_pod[pod] for unit in found[1] for pod in unit.pods)


C = queue("c", 2)
Q = queue("q", 0, "c")


@pytest.mark.parametrize(
    ("queues", "jobs", "asking", "expected"),
    [
        pytest.param(
            (ROOT, C, Q, queue("q_borrowing")),
            [Job("admitted2", "q_borrowing", 2)],
            Job("in", "q", 2),
            ["admitted2"],
            id="preempt with hierarchical advantage",
        ),
        pytest.param(
            (ROOT, C, Q, queue("q_borrowing"), queue("q_nominal", 2)),
            [Job("admitted1", "q_nominal", 2, -10), Job("admitted2", "q_borrowing", 2)],
            Job("in", "q", 2),
            ["admitted2"],
            id="avoid queues within nominal quota",
        ),
        pytest.param(
            (ROOT, C, Q, queue("q_borrowing")),
            [Job("admitted1", "q_borrowing", 1, 1), Job("admitted2", "q_borrowing", 1, 2)],
            Job("in", "q", 2),
            ["admitted1", "admitted2"],
            id="preempt multiple with hierarchical advantage",
        ),
        pytest.param(
            (ROOT, C, Q, queue("q_borrowing")),
            [Job("admitted_borrowing", "q_borrowing", 1, 1), Job("admitted_same_queue", "q", 1, -2)],
            Job("in", "q", 1),
            ["admitted_borrowing"],
            id="prefer to preempt hierarchical candidate",
        ),
        pytest.param(
            (ROOT, C, queue("q", 4, "c"), queue("q_borrowing"), queue("q_same_cohort", 0, "c")),
            [
                Job("admitted_borrowing", "q_borrowing", 3, 10),
                Job("admitted_same_cohort", "q_same_cohort", 3, 10),
            ],
            Job("in", "q", 4),
            ["admitted_borrowing", "admitted_same_cohort"],
            id="incoming workload fits in CQ nominal quota",
        ),
    ],
)
def test_what_is_published_of_others(
    queues: tuple[Queue, ...], jobs: list[Job], asking: Job, expected: list[str] | None
) -> None:
    assert victims(picture(queues, jobs, asking), asking) == expected


@pytest.mark.parametrize(("priority", "expected"), [(-1, ["same_cohort"]), (0, None)])
def test_who_would_borrow_takes_from_a_lower_queue_and_swaps_no_shares(
    priority: int, expected: list[str] | None
) -> None:
    """Kueue's "forced to preempt priority candidate" looks at the priority of the work alone; here that of
    the queues decides, and then their shares.
    """
    queues = (
        *(ROOT, C, queue("q", 0, "c", BORROWS_FROM_LOWER), queue("q_nominal", 2)),
        queue("q_same_cohort", 0, "c", priority=priority),
    )
    jobs = [Job("nominal", "q_nominal", 2, -10), Job("same_cohort", "q_same_cohort", 2, -1)]
    asking = Job("in", "q", 2)
    assert victims(picture(queues, jobs, asking), asking) == expected


def test_a_gang_on_borrowed_quota_goes_whole_though_it_then_loses_more_than_was_borrowed() -> None:
    """a and b own one GPU each; the gang of b has both."""
    gang = Job("g", "b", minimum=2, is_gang=True)
    asking = Job("in", "a")
    seen = picture((ROOT, queue("a", 1), queue("b", 1)), [gang], asking, gpus=2)
    assert victims(seen, asking) == ["g", "g"]


def test_a_gang_within_what_its_queue_owns_stays() -> None:
    gang = Job("g", "b", minimum=2, is_gang=True)
    asking = Job("in", "a")
    assert victims(picture((ROOT, queue("a", 1), queue("b", 2)), [gang], asking, gpus=2), asking) is None


def test_of_a_gang_the_members_above_the_minimum_go_first() -> None:
    gang = Job("g", "b", minimum=1, is_gang=True)
    asking = Job("in", "a")
    seen = picture((ROOT, queue("a", 1), queue("b", 1)), [gang], asking, gpus=2, pods={"g": 2})
    assert victims(seen, asking) == ["g"]


def test_who_would_borrow_has_a_gang_go_only_where_its_queue_keeps_its_own() -> None:
    """c comes before a, and owns nothing. Of two GPUs that a gang of a has a owns one, or none."""
    for owned, expected in ((1, None), (0, ["g", "g"])):
        queues = (queue("r", 2, None), queue("a", owned), queue("c", policy=SHARES, priority=1))
        asking = Job("in", "c")
        gang = Job("g", "a", minimum=2, is_gang=True)
        assert victims(picture(queues, [gang], asking, gpus=2), asking) == expected


def test_a_cousin_within_its_own_keeps_its_work_and_the_one_that_borrows_gives() -> None:
    """A department owns two GPUs, both of near; far has one more. near has two, far one, a owns two."""
    queues = (ROOT, queue("a", 2), queue("dept"), queue("near", 2, "dept"), queue("far", 0, "dept"))
    jobs = [Job("mine", "a"), Job("owned", "near", 2), Job("borrowed", "far", 1, priority=1)]
    asking = Job("in", "a")
    assert victims(picture(queues, jobs, asking, gpus=4), asking) == ["borrowed"]


def test_what_is_owed_is_taken_back_before_own_work_ends() -> None:
    """a owns two GPUs and has one, b owns none and has one."""
    asking = Job("in", "a", priority=1)
    seen = picture((ROOT, queue("a", 2), queue("b")), [Job("own", "a"), Job("b1", "b")], asking, gpus=2)
    assert victims(seen, asking) == ["b1"]


def test_who_would_borrow_evicts_own_work_first() -> None:
    """The root owns two GPUs, a and b none; each has one."""
    queues = (queue("r", 2, None), queue("a", 0, policy=SHARES), queue("b"))
    asking = Job("in", "a", priority=1)
    assert victims(picture(queues, [Job("own", "a"), Job("b1", "b")], asking, gpus=2), asking) == ["own"]


def test_shares_are_compared_with_the_victims_gone() -> None:
    """The root owns four GPUs; b has three of them and a one. With two each nobody takes anything."""
    queues = (queue("r", 4, None), queue("a", policy=SHARES), queue("b", policy=SHARES))
    jobs = [Job(f"b{number}", "b") for number in range(3)]
    asking = Job("in", "a")
    seen = picture(queues, [Job("a0", "a"), *jobs], asking, gpus=4)
    found = victims(seen, asking)
    assert found is not None
    assert len(found) == 1
    two_each = picture(queues, [Job("a0", "a"), Job("a1", "a"), *jobs[:2]], asking, gpus=4)
    assert victims(two_each, asking) is None


def test_the_room_that_would_be_its_turn_is_taken_though_its_share_is_then_the_larger_one() -> None:
    """The root owns two GPUs, and b of weight 3 has both. a of weight 2 has nothing, and then 1/2.

    b keeps 1/3, which is more than nothing, so the room is the turn of a. Afterwards b does not take it back.
    """
    queues = (
        queue("r", 2, None),
        queue("a", policy=SHARES, weight_milli=2000),
        queue("b", policy=SHARES, weight_milli=3000),
    )
    asking = Job("in", "a")
    found = victims(picture(queues, [Job("b0", "b"), Job("b1", "b")], asking, gpus=2), asking)
    assert found in (["b0"], ["b1"])
    back = Job("back", "b")
    assert victims(picture(queues, [Job("b0", "b"), Job("a0", "a")], back, gpus=2), back) is None


def test_what_started_in_its_turn_is_not_taken_back_for_the_smaller_share_afterwards() -> None:
    """The root owns six GPUs; a of weight 1 has two and b of weight 3 four. The second of a was its turn: it
    had one, and b 4/3. With a fifth b would have 5/3, which is below the 2 that a has.
    """
    queues = (queue("r", 6, None), queue("a"), queue("b", policy=SHARES, weight_milli=3000))
    jobs = [Job("a0", "a"), Job("a1", "a"), *(Job(f"b{number}", "b") for number in range(4))]
    asking = Job("in", "b")
    assert victims(picture(queues, jobs, asking, gpus=6), asking) is None


def test_of_equal_shares_the_larger_weight_takes() -> None:
    """The root owns one GPU, which b has. a has three times its weight, and b keeps nothing either."""
    for weight_milli, expected in ((3000, ["b0"]), (1000, None)):
        queues = (queue("r", 1, None), queue("a", policy=SHARES, weight_milli=weight_milli), queue("b"))
        asking = Job("in", "a")
        assert victims(picture(queues, [Job("b0", "b")], asking, gpus=1), asking) == expected


def test_a_gang_takes_no_more_than_what_is_the_turn_of_its_last_pod() -> None:
    """The root owns six GPUs, and b has them. Three each are just; before a fourth a would have three, and b
    keeps two.
    """
    queues = (queue("r", 6, None), queue("a", policy=SHARES), queue("b"))
    jobs = [Job(f"b{number}", "b") for number in range(6)]
    for members, count in ((3, 3), (4, None)):
        asking = Job("in", "a", minimum=members, is_gang=True)
        found = victims(picture(queues, jobs, asking, gpus=6), asking)
        assert found is None if count is None else len(found or []) == count


def test_a_lower_queue_gives_whatever_its_share_and_a_higher_one_never() -> None:
    """The root owns one GPU."""
    for priority, expected in ((-1, ["b0"]), (1, None)):
        queues = (queue("r", 1, None), queue("a", policy=SHARES), queue("b", priority=priority))
        asking = Job("in", "a")
        assert victims(picture(queues, [Job("b0", "b")], asking, gpus=1), asking) == expected


def test_own_work_on_another_node_goes_where_quota_is_what_lacks() -> None:
    """a owns two GPUs; its one of low priority is on the first node, the room on the second."""
    asking = Job("in", "a", 2, priority=1)
    seen = picture((ROOT, queue("a", 2)), [Job("low", "a")], asking)
    two_nodes = Picture(0, seen.queues, (Machine("n0", 1), Machine("n1", 2)), *seen_pods(seen))
    assert victims(two_nodes, asking) == ["low"]


def seen_pods(seen: Picture) -> tuple[dict[str, Job], dict[str, str], dict[str, Run]]:
    """The jobs and pods of a picture."""
    return seen.jobs, seen.job_by_pod, seen.runs


def test_as_many_of_one_priority_go_from_the_queue_with_the_least_right() -> None:
    """b has borrowed two GPUs and c one: one of b goes, though one of c lost less work."""
    queues = (ROOT, queue("a", 3), queue("b"), queue("c"))
    jobs = [Job("c0", "c"), Job("b0", "b"), Job("b1", "b")]
    asking = Job("in", "a")
    found = victims(picture(queues, jobs, asking, gpus=3), asking)
    assert found in (["b0"], ["b1"])


def test_work_that_is_never_evicted_borrows_nothing_and_has_nobody_evicted_for_quota() -> None:
    queues = (queue("r", 2, None), queue("a"))
    asking = Job("in", "a", preemptible=False, priority=9)
    seen = picture(queues, [Job("low", "a")], asking)
    tree = QuotaTree(seen.queues.values())
    assert shortage(seen, tree, asking, frozenset()) is Cause.PROTECTED_QUOTA
    assert victims(seen, asking) is None


def test_the_cause_names_quota_before_nodes() -> None:
    asking = Job("in", "a", 2)
    for owns, cause in ((1, Cause.QUOTA), (2, Cause.NODES)):
        seen = picture((ROOT, queue("a", owns)), [], asking, gpus=1)
        assert shortage(seen, QuotaTree(seen.queues.values()), asking, frozenset()) is cause
