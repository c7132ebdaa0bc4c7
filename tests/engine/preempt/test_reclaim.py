"""What a queue is owed is taken back from those who borrow it, and no more than that."""

import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, RequeueAfter
from gpufleet.model.identifiers import QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, node, nominated, placed, pod, shape

RECLAIMS = PreemptionPolicy()
SHARES = PreemptionPolicy(borrowing=VictimScope.ANY)


def queue(
    name: str,
    gpus: int | None = None,
    *,
    parent: str | None = "all",
    preemption: PreemptionPolicy = RECLAIMS,
    weight_milli: int = 1000,
    priority: int = 0,
) -> event.QueueSet:
    """A queue that owns so many GPUs."""
    quotas = () if gpus is None else (Quota(GPU, gpus * 1000),)
    above = None if parent is None else QueueName(parent)
    return event.QueueSet(
        Queue(
            QueueName(name),
            priority,
            parent=above,
            quotas=quotas,
            preemption=preemption,
            weight_milli=weight_milli,
        )
    )


def two_teams(
    *, gpus: int = 8, a: int = 4, b: int = 4, root: int = 0, policy: PreemptionPolicy = RECLAIMS
) -> Story:
    """Two teams below one root, on one node."""
    told = Story()
    told.happen(
        queue("all", root, parent=None), queue("a", a, preemption=policy), queue("b", b, preemption=policy)
    )
    told.nodes(node("n0", gpus))
    return told


def work(
    team: str, count: int, needs: Shape | None = None, *, first: int = 0, priority: int = 0
) -> list[Pod]:
    """Pods of a team, named a0, a1 and so on."""
    return [
        pod(f"{team}{number}", needs or shape(1), queue=team, priority=priority)
        for number in range(first, first + count)
    ]


def test_what_was_borrowed_is_given_back_and_what_is_owned_is_not() -> None:
    told = two_teams()
    assert len(placed(told.arrive(*work("b", 8)))) == 8
    said = told.arrive(*work("a", 6))
    assert len(evicted(said)) == 4
    assert set(evicted(said).values()) == {"a0", "a1", "a2", "a3"}
    assert sorted(placed(told.depart(*evicted(said)))) == ["a0", "a1", "a2", "a3"]
    assert evicted(told.wait_s(5)) == {}, "beyond what it owns it may only borrow what is idle"


def test_who_was_evicted_waits_and_does_not_take_it_back() -> None:
    told = two_teams()
    told.arrive(*work("b", 8))
    victims = list(evicted(told.arrive(*work("a", 4))))
    told.depart(*victims)
    said = told.arrive(*work("b", 4, first=20))
    assert (evicted(said), placed(said)) == ({}, [])


def test_a_queue_within_what_it_owns_loses_nothing() -> None:
    told = two_teams(gpus=6)
    told.arrive(*work("b", 4))
    told.arrive(*work("a", 2))
    assert evicted(told.arrive(*work("a", 2, first=2))) == {}


def test_the_root_s_own_quota_is_borrowed_by_whoever_comes_first() -> None:
    told = two_teams(a=2, b=2, root=4)
    assert len(placed(told.arrive(*work("b", 8)))) == 8
    assert len(evicted(told.arrive(*work("a", 8)))) == 2


@pytest.mark.parametrize(
    ("scope", "lower", "equal_newer", "higher"),
    [
        (VictimScope.NEVER, False, False, False),
        (VictimScope.LOWER_PRIORITY, True, False, False),
        (VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY, True, True, False),
        (VictimScope.ANY, True, True, True),
    ],
)
def test_the_policy_says_whom_it_is_taken_from(
    scope: VictimScope, lower: bool, equal_newer: bool, higher: bool
) -> None:
    for priority, expected in ((1, lower), (5, equal_newer), (9, higher)):
        told = two_teams(gpus=1, a=1, b=0, policy=PreemptionPolicy(reclaim=scope))
        told.arrive(pod("b0", shape(1), queue="b", priority=priority, created_at_us=7))
        said = told.arrive(pod("a0", shape(1), queue="a", priority=5))
        assert evicted(said) == ({"b0": "a0"} if expected else {}), priority


def test_borrowed_work_is_left_alone_for_its_time() -> None:
    told = two_teams(gpus=1, a=1, b=0, policy=PreemptionPolicy(reclaim_after_us=60 * SECOND_US))
    told.run_on(pod("b0", shape(1), queue="b"), "n0", "n0/0")
    said = told.arrive(*work("a", 1))
    assert evicted(said) == {}
    assert dues_s(said) == [60]
    assert evicted(told.wait_s(60)) == {"b0": "a0"}


def dues_s(said: list[AnyInstruction]) -> list[float]:
    """When the engine wants to be asked again."""
    return [one.at_us / SECOND_US for one in said if isinstance(one, RequeueAfter)]


def test_a_gang_reclaims_in_one_decision_with_the_nodes_or_nobody_is_evicted() -> None:
    told = two_teams(gpus=4, a=8, b=0)
    told.nodes(node("n1", 4))
    told.arrive(*work("b", 4, shape(2)))
    told.gangs(gang("g", 4, queue="a"), gang("h", 5, queue="a"))
    large = [pod(f"h{number}", shape(2), queue="a", gang="h") for number in range(5)]
    assert evicted(told.arrive(*large)) == {}, "it owns 8 GPUs, and needs 10"
    said = told.arrive(*(pod(f"g{number}", shape(2), queue="a", gang="g") for number in range(4)))
    assert set(evicted(said)) == {"b0", "b1", "b2", "b3"}
    assert set(nominated(said)) == {"g0", "g1", "g2", "g3"}
    assert placed(told.depart("b0", "b1", "b2")) == []
    assert len(placed(told.depart("b3"))) == 4


def test_quota_is_freed_where_room_is_not_needed() -> None:
    told = two_teams(gpus=4, a=2, b=2)
    told.nodes(node("n1", 4))
    told.arrive(*work("b", 4))
    victims = evicted(told.arrive(*work("a", 1, shape(2))))
    assert len(victims) == 2, "there are four idle GPUs, and no quota for them"
    assert placed(told.depart(next(iter(victims)))) == []
    assert placed(told.depart(list(victims)[1])) == ["a0"]


def test_cousins_are_compared_where_their_paths_part() -> None:
    told = Story()
    told.happen(
        queue("all", 0, parent=None),
        queue("left", 4),
        queue("right", 4),
        queue("l1", parent="left"),
        queue("l2", parent="left"),
        queue("r", parent="right"),
    )
    told.nodes(node("n0", 8))
    told.arrive(*work("l1", 6), *work("r", 2))
    said = told.arrive(*work("r", 2, first=2))
    assert {uid[:2] for uid in evicted(said)} == {"l1"}
    assert len(evicted(said)) == 2
    told.depart(*evicted(said))
    assert evicted(told.arrive(*work("l2", 1))) == {}, "neither of the two owns anything beside the other"


def test_with_leave_to_evict_while_borrowing_shares_become_equal_and_stay_so() -> None:
    told = two_teams(a=0, b=0, root=8, policy=SHARES)
    told.arrive(*work("b", 8))
    said = told.arrive(*work("a", 8))
    assert len(evicted(said)) == 4
    told.depart(*evicted(said))
    assert evicted(told.arrive(*work("b", 4, first=20))) == {}
    assert evicted(told.wait_s(5)) == {}


def test_shares_become_as_unequal_as_the_weights() -> None:
    told = Story()
    told.happen(
        queue("all", 8, parent=None),
        queue("a", 0, preemption=SHARES, weight_milli=3000),
        queue("b", 0, preemption=SHARES),
    )
    told.nodes(node("n0", 8))
    told.arrive(*work("b", 8))
    assert len(evicted(told.arrive(*work("a", 8)))) == 6


def two_that_borrow(gpus: int, a: int, b: int) -> Story:
    """Two teams of these weights that own nothing of so many GPUs."""
    told = Story()
    told.happen(
        queue("all", gpus, parent=None),
        queue("a", 0, preemption=SHARES, weight_milli=a),
        queue("b", 0, preemption=SHARES, weight_milli=b),
    )
    told.nodes(node("n0", gpus))
    return told


def test_the_room_that_would_be_its_turn_is_taken_though_its_share_is_then_the_larger_one() -> None:
    """By hand: b keeps 1/3 for weight 3, a has 0 and then 1/2 for weight 2."""
    told = two_that_borrow(2, 2000, 3000)
    told.arrive(*work("b", 3))
    said = evicted(told.arrive(*work("a", 1)))
    assert len(said) == 1
    told.depart(*said)
    assert evicted(told.wait_s(5)) == {}


def test_what_started_in_its_turn_is_not_taken_back_for_the_smaller_share_afterwards() -> None:
    """By hand: of weights 1 and 3 a has two and b four. A fifth of b would be 5/3, which is below the 2 of a,
    but the 4/3 of b is not below the 1 that a would keep.
    """
    told = two_that_borrow(6, 1000, 3000)
    told.arrive(*work("a", 2))
    assert evicted(told.arrive(*work("b", 5))) == {}


@pytest.mark.parametrize(("members", "count"), [(4, 4), (5, 0)])
def test_a_gang_takes_no_more_than_what_is_the_turn_of_its_last_pod(members: int, count: int) -> None:
    """By hand: of eight GPUs four each are just. Before a fifth a would have four, where b keeps three."""
    told = two_that_borrow(8, 1000, 1000)
    told.arrive(*work("b", 8))
    told.gangs(gang("g", members, queue="a"))
    asks = [pod(f"g{number}", shape(1), queue="a", gang="g") for number in range(members)]
    assert len(evicted(told.arrive(*asks))) == count


def test_equal_pods_after_the_first_take_what_is_their_turn_and_no_more() -> None:
    """By hand: of five GPUs of b for weight 3, a of weight 2 gets two. 2/2 is not below the 2/3 of two."""
    told = two_that_borrow(5, 2000, 3000)
    told.arrive(*work("b", 5))
    assert len(evicted(told.arrive(*work("a", 5)))) == 2


def test_while_borrowing_only_priorities_up_to_the_limit_are_taken() -> None:
    policy = PreemptionPolicy(borrowing=VictimScope.ANY, borrowing_priority_max=3)
    told = two_teams(gpus=2, a=0, b=0, root=2, policy=policy)
    told.arrive(pod("b0", shape(1), queue="b", priority=4), pod("b1", shape(1), queue="b", priority=3))
    assert evicted(told.arrive(*work("a", 1))) == {"b1": "a0"}


def test_work_of_no_queue_goes_first() -> None:
    told = two_teams(gpus=3, a=2, b=1)
    told.arrive(*work("b", 2), pod("nobody's", shape(1)))
    assert evicted(told.arrive(*work("a", 1))) == {"nobody's": "a0"}


def test_the_first_work_of_no_queue_may_make_the_tables_of_queues_grow() -> None:
    told = Story()
    # With the root eight queues: as many as the tables have room for at first.
    told.happen(queue("all", parent=None), queue("a", 2), queue("b", 2), *(queue(f"q{n}") for n in range(5)))
    told.nodes(node("n0", 4))
    told.arrive(*work("b", 4))
    assert evicted(told.arrive(*work("a", 1))) == {"b0": "a0"}
    told.arrive(pod("none", shape(1)))
    assert evicted(told.arrive(*work("a", 1, first=1))) == {"b1": "a1"}


def test_what_is_owed_is_taken_back_before_own_work_of_lower_priority_goes() -> None:
    told = two_teams(gpus=4, a=2, b=2)
    told.arrive(*work("b", 3), *work("a", 1))
    assert set(evicted(told.arrive(*work("a", 1, first=1, priority=5)))) < {"b0", "b1", "b2"}


def test_own_work_of_lower_priority_goes_before_that_of_others_where_the_queue_would_borrow() -> None:
    told = two_teams(gpus=4, a=0, b=0, root=4, policy=SHARES)
    told.arrive(*work("b", 3), *work("a", 1))
    assert evicted(told.arrive(*work("a", 1, first=1, priority=5))) == {"a0": "a1"}


def test_own_and_others_work_together_where_neither_alone_suffices() -> None:
    told = two_teams(gpus=4, a=2, b=2)
    told.arrive(*work("b", 3), *work("a", 1))
    said = told.arrive(*work("a", 1, shape(2), first=1, priority=5))
    assert len(evicted(said)) == 2
    assert "a0" in evicted(said)


def many_borrowed(*gpus: int) -> Story:
    """Team b has borrowed all of what team a owns, six GPUs on nodes of so many."""
    told = Story()
    told.happen(queue("all", 0, parent=None), queue("a", 6), queue("b", 0))
    told.nodes(*(node(f"n{number}", count) for number, count in enumerate(gpus)))
    assert len(placed(told.arrive(*work("b", 6)))) == 6
    return told


def test_the_quota_that_is_being_left_counts_for_who_comes_next() -> None:
    told = many_borrowed(1, 2, 1, 2)
    for number in range(6):
        said = told.arrive(*work("a", 1, first=number))
        assert list(evicted(said).values()) == [f"a{number}"], "one pod, one victim, wherever others leave"


def test_a_place_that_is_kept_is_in_use_only_when_it_is_taken_and_others_cannot_have_it() -> None:
    told = two_teams(gpus=2, a=1, b=1)
    told.arrive(*work("b", 2))
    said = told.arrive(*work("a", 1))
    assert list(nominated(said)) == ["a0"]
    assert used(told) == {"all": (2000, 0, 0, 0), "a": (0, 0, 1000, 0), "b": (2000, 1000, 0, 0)}
    told.depart(*evicted(said))
    assert used(told) == {"all": (2000, 0, 0, 0), "a": (1000, 0, 0, 0), "b": (1000, 0, 0, 0)}


def used(told: Story) -> dict[str, tuple[int, int, int, int | None]]:
    """What the report says of each queue's GPUs: used, borrowed, lent, and still available."""
    return {
        str(one.queue): (gpu.used, gpu.borrowed, gpu.lent, gpu.available)
        for one in told.engine.queue_report()
        for gpu in one.resources
        if gpu.resource == "gpu"
    }


def test_each_waits_for_its_own_victim_alone_in_whatever_order_they_go() -> None:
    told = many_borrowed(2, 2, 2)
    waits_for = {uid: who for uid, (_, who) in nominated(told.arrive(*work("a", 4))).items()}
    assert {len(who) for who in waits_for.values()} == {1}
    for uid, who in reversed(waits_for.items()):
        assert placed(told.depart(*who)) == [uid]


def test_a_place_is_not_given_out_while_more_than_the_quota_runs() -> None:
    """Two small victims for one large pod: the quota of the first to go is not the next one's."""
    told = Story()
    told.happen(queue("all", 0, parent=None), queue("a", 4), queue("b", 0))
    told.nodes(node("n0", 2), node("n1", 4))
    told.arrive(*work("b", 4))
    said = told.arrive(*work("a", 1, shape(2)), *work("a", 1, first=1))
    waits_for = {uid: who for uid, (_, who) in nominated(said).items()}
    assert set(waits_for) == {"a0", "a1"}
    assert len(evicted(said)) == 3
    both = [uid for uid in waits_for["a0"] if uid not in waits_for["a1"]]
    assert placed(told.depart(both[0])) == []
    assert placed(told.depart(*waits_for["a1"])) == ["a1"]
    assert placed(told.depart(*both[1:])) == ["a0"]


@pytest.mark.parametrize(("priority", "taken"), [(0, 4), (1, 8), (-1, 0)])
def test_what_is_left_over_goes_by_the_priority_of_queues_first(priority: int, taken: int) -> None:
    """By hand, as water is filled: 8 GPUs of the root, of which b has all. Of equals each gets 4."""
    told = Story()
    told.happen(
        queue("all", 8, parent=None),
        queue("a", preemption=SHARES, priority=priority),
        queue("b", preemption=SHARES),
    )
    told.nodes(node("n0", 8))
    told.arrive(*work("b", 8))
    told.wait_s(1)
    assert len(evicted(told.arrive(*work("a", 8)))) == taken
    told.depart(*evicted(told.said))
    assert {whom[0] for whom in evicted(told.wait_s(1)).values() if whom} <= set()
    assert not [uid for uid in evicted(told.arrive(*work("b", 8, first=20))) if uid.startswith("a")]


def test_work_of_the_queue_of_lowest_priority_goes_first_although_another_borrows_more() -> None:
    told = Story()
    told.happen(
        queue("all", 0, parent=None), queue("a", 6), queue("b", 0, priority=1), queue("c", 0, priority=0)
    )
    told.nodes(node("n0", 6))
    told.arrive(*work("b", 4), *work("c", 2))
    told.wait_s(1)
    assert set(evicted(told.arrive(*work("a", 2)))) == {"c0", "c1"}
    told.wait_s(1)
    assert set(evicted(told.arrive(*work("a", 1, first=2)))) <= {"b0", "b1", "b2", "b3"}
