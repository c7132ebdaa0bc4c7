"""Whom work evicts in its own queue: by policy, age, budgets, gangs, and what it costs."""

import msgspec
import pytest

from gpufleet.engine.event import (
    DisruptionBudgetRemoved,
    DisruptionBudgetSet,
    PodAdded,
    PodBound,
    PodCheckpointed,
    PodRemoved,
)
from gpufleet.engine.instruction import RequeueAfter
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, VictimScope
from gpufleet.model.shape import Shape, Within
from tests.engine.fleet_builder import (
    SECOND_US,
    Story,
    evicted,
    gang,
    node,
    nominated,
    placed,
    pod,
    shape,
    share,
    withdrawn,
)

EVERYBODY = LabelSelector()


def story(
    scope: VictimScope = VictimScope.LOWER_PRIORITY, *, gpus: int = 2, nodes: int = 1, after_s: int = 0
) -> Story:
    """One queue with a policy, and some nodes."""
    told = Story()
    told.queue("team", preemption=PreemptionPolicy(scope, preempt_after_us=after_s * SECOND_US))
    told.nodes(*(node(f"n{number}", gpus) for number in range(nodes)))
    return told


def of_team(
    uid: str,
    needs: Shape | None = None,
    *,
    priority: int = 0,
    gang: str | None = None,
    created_s: int = 0,
    preemptible: bool = True,
    preempts: bool = True,
    role: str = "",
) -> Pod:
    """A pod of that queue, with one GPU unless it needs something else."""
    return pod(
        uid,
        needs or shape(1),
        queue="team",
        priority=priority,
        gang=gang,
        created_at_us=created_s * SECOND_US,
        preemptible=preemptible,
        preempts=preempts,
        role=role,
    )


@pytest.mark.parametrize(
    ("scope", "lower", "newer", "older"),
    [
        (VictimScope.NEVER, False, False, False),
        (VictimScope.LOWER_PRIORITY, True, False, False),
        (VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY, True, True, False),
        (VictimScope.ANY, True, True, False),
    ],
)
def test_the_policy_says_who_may_be_evicted(
    scope: VictimScope, lower: bool, newer: bool, older: bool
) -> None:
    for priority, created_s, expected in ((4, 5, lower), (5, 9, newer), (5, 1, older), (6, 9, False)):
        told = story(scope, gpus=1)
        told.arrive(of_team("runs", priority=priority, created_s=created_s))
        said = told.arrive(of_team("asks", priority=5, created_s=5))
        assert evicted(said) == ({"runs": "asks"} if expected else {}), (priority, created_s)


def test_work_of_other_queues_is_left_alone() -> None:
    told = story(gpus=1)
    told.queue("others")
    told.arrive(pod("theirs", shape(1), queue="others"))
    assert evicted(told.arrive(of_team("asks", priority=9))) == {}


def test_the_lowest_priority_goes_first_then_the_fewest_then_who_loses_least() -> None:
    told = story(gpus=2, nodes=3)
    told.run_on(of_team("high", shape(2), priority=3), "n0", "n0/0", "n0/1")
    told.run_on(of_team("two-a", priority=1), "n1", "n1/0")
    told.run_on(of_team("two-b", priority=1), "n1", "n1/1")
    told.run_on(of_team("one", shape(2), priority=1), "n2", "n2/0", "n2/1")
    assert evicted(told.arrive(of_team("asks", shape(2), priority=5))) == {"one": "asks"}
    assert set(evicted(told.arrive(of_team("asks too", shape(2), priority=5)))) == {"two-a", "two-b"}
    assert evicted(told.arrive(of_team("third", shape(2), priority=5))) == {"high": "third"}


def test_of_equals_the_one_goes_that_loses_the_least_work() -> None:
    told = story(gpus=3)
    told.run_on(of_team("long"), "n0", "n0/0")
    told.run_on(of_team("saved"), "n0", "n0/1")
    told.wait_s(100)
    told.run_on(of_team("short"), "n0", "n0/2")
    told.wait_s(50)
    told.happen(PodCheckpointed(PodUid("saved"), told.at_us - SECOND_US))
    assert evicted(told.arrive(of_team("a", priority=1))) == {"saved": "a"}
    assert evicted(told.arrive(of_team("b", priority=1))) == {"short": "b"}


def test_who_is_not_preemptible_or_above_the_age_is_never_evicted() -> None:
    told = story(gpus=1)
    told.arrive(of_team("stays", preemptible=False))
    assert evicted(told.arrive(of_team("asks", priority=9))) == {}


def test_for_work_that_does_not_preempt_nobody_goes_but_what_others_leave_is_kept_for_it() -> None:
    told = story(gpus=1)
    told.arrive(of_team("runs"))
    assert evicted(told.arrive(of_team("patient", priority=9, preempts=False))) == {}
    assert set(nominated(told.arrive(msgspec.structs.replace(of_team("runs"), leaving=True)))) == {"patient"}
    assert placed(told.depart("runs")) == ["patient"]


def test_a_patient_pod_does_not_keep_one_behind_it_from_evicting() -> None:
    told = story(gpus=1)
    told.arrive(of_team("runs"))
    patient, other = of_team("patient", priority=9, preempts=False), of_team("other", priority=9)
    assert evicted(told.arrive(patient, other)) == {"runs": "other"}


def test_a_gang_with_one_member_that_does_not_preempt_evicts_nobody() -> None:
    for patient, expected in ((True, {}), (False, {"runs": "g"})):
        told = story(gpus=2)
        told.arrive(of_team("runs", shape(2)))
        told.gangs(gang("g", 2, queue="team", priority=9))
        said = told.arrive(of_team("g0", gang="g"), of_team("g1", gang="g", preempts=not patient))
        assert evicted(said) == expected


def test_nobody_is_evicted_before_its_minimum_run_time_and_then_at_once() -> None:
    told = story(gpus=1, after_s=60)
    told.happen(PodBound(of_team("runs"), NodeName("n0"), (), started_at_us=0))
    told.wait_s(20)
    said = told.arrive(of_team("asks", priority=5))
    assert evicted(said) == {}
    assert [one.at_us for one in said if isinstance(one, RequeueAfter)] == [60 * SECOND_US]
    assert evicted(told.wait_s(39.999)) == {}
    assert evicted(told.wait_s(0.001)) == {"runs": "asks"}


def test_a_pod_that_comes_may_be_the_victim_that_was_missing() -> None:
    told = story(gpus=2)
    told.arrive(of_team("high", priority=9))
    assert evicted(told.arrive(of_team("pair", shape(2), priority=5))) == {}
    told.arrive(of_team("low"))
    assert evicted(told.wait_s(1)) == {}, "the other GPU is held by one of higher priority"
    assert evicted(told.depart("high")) == {"low": "pair"}


def test_a_share_is_enough_where_a_share_is_needed() -> None:
    told = story(gpus=1)
    told.arrive(*(of_team(f"s{number}", share(250), priority=number) for number in range(4)))
    said = told.arrive(of_team("asks", share(500), priority=9))
    assert set(evicted(said)) == {"s0", "s1"}
    assert placed(told.depart("s0")) == []
    assert placed(told.depart("s1")) == ["asks"]


def test_cpu_and_gpu_may_have_to_come_from_different_pods() -> None:
    told = Story()
    told.queue("team")
    told.nodes(node("n0", 1, cpu_milli=4000))
    told.arrive(of_team("cpu", shape(cpu_milli=3000)), of_team("gpu", shape(1, cpu_milli=0)))
    said = told.arrive(of_team("asks", shape(1, cpu_milli=2000), priority=1))
    assert set(evicted(said)) == {"cpu", "gpu"}


def test_no_second_victim_for_what_ends_anyway() -> None:
    told = story(gpus=2)
    told.arrive(of_team("a"), of_team("b"))
    told.told_to_end("a")
    assert evicted(told.arrive(of_team("asks", priority=5))) == {}
    assert evicted(told.arrive(of_team("next", priority=5))) == {"b": "next"}


def test_two_that_ask_in_one_step_get_different_victims() -> None:
    told = story(gpus=2)
    told.arrive(of_team("a"), of_team("b"))
    said = told.arrive(of_team("x", priority=5), of_team("y", priority=5))
    assert sorted(evicted(said).items()) == [("a", "x"), ("b", "y")]
    assert sorted(placed(told.depart("a", "b"))) == ["x", "y"]


def test_who_was_nominated_is_nobodys_victim() -> None:
    told = story(gpus=1)
    told.arrive(of_team("low"))
    told.arrive(of_team("middle", priority=5))
    said = told.arrive(of_team("high", priority=9))
    assert (evicted(said), nominated(said), withdrawn(said)) == ({}, {}, [])
    assert placed(told.depart("low")) == ["middle"]
    assert evicted(told.wait_s(2)) == {"middle": "high"}


def test_a_valuation_in_the_same_instant_evicts_nothing_that_was_just_placed() -> None:
    told = story(gpus=1, nodes=2)
    told.arrive(of_team("low"), of_team("other"))
    told.arrive(of_team("middle", priority=5))
    told.wait_s(1)
    high = [PodAdded(of_team(uid, priority=9)) for uid in ("first", "second")]
    said = told.happen(PodRemoved(PodUid("low")), *high)
    assert (placed(said), evicted(said)) == (["middle"], {"other": "first"})
    assert evicted(told.happen(told.engine.study())) == {}, "both steps are one decision"
    assert evicted(told.wait_s(2)) == {"middle": "second"}


def budget(allowed: int, *, name: str = "b", disrupted: tuple[str, ...] = ()) -> DisruptionBudgetSet:
    """A budget of everybody."""
    uids = tuple(PodUid(uid) for uid in disrupted)
    return DisruptionBudgetSet(DisruptionBudget(name, "", EVERYBODY, allowed, uids))


def test_a_disruption_budget_is_kept_to_the_last_pod() -> None:
    told = story(gpus=3)
    told.happen(budget(1))
    told.arrive(*(of_team(uid) for uid in "abc"))
    assert len(evicted(told.arrive(of_team("x", priority=5)))) == 1
    assert evicted(told.arrive(of_team("y", priority=5))) == {}, "it is spent"
    assert evicted(told.happen(budget(0, disrupted=("a",)))) == {}
    assert len(evicted(told.happen(budget(2, disrupted=("a",))))) == 1
    assert evicted(told.arrive(of_team("two", shape(2), priority=5))) == {}
    told.happen(DisruptionBudgetRemoved("", "b"))
    assert evicted(told.happen()) == {}, "y and x have two of the three; one is left, and two are needed"


def test_a_pod_that_two_budgets_select_is_never_evicted() -> None:
    told = story(gpus=1)
    told.happen(budget(5), budget(5, name="second"))
    told.arrive(of_team("a"))
    assert evicted(told.arrive(of_team("x", priority=5))) == {}
    assert evicted(told.happen(DisruptionBudgetRemoved("", "second"))) == {"a": "x"}


def test_an_eviction_that_is_refused_gives_the_budget_back() -> None:
    told = story(gpus=2)
    told.happen(budget(1))
    told.arrive(of_team("a"), of_team("b"))
    assert evicted(told.arrive(of_team("x", priority=5))) == {"a": "x"}
    assert evicted(told.refuse_eviction("a")) == {"b": "x"}


def test_a_report_that_came_before_the_end_was_seen_counts_it_already() -> None:
    told = story(gpus=3)
    told.happen(budget(2))
    told.arrive(*(of_team(uid) for uid in "abc"))
    (victim,) = evicted(told.arrive(of_team("x", priority=5)))
    # The pod is not healthy any more, so the budget does not name it, and one more may go.
    told.happen(budget(1))
    assert evicted(told.arrive(of_team("y", priority=5))) == {}, "that report may be an old one"
    assert len(evicted(told.depart(victim))) == 1


def gang_runs(told: Story, name: str, minimum: int, count: int, needs: Shape | None = None) -> None:
    """A gang of so many members, all of them placed."""
    told.gangs(gang(name, minimum, queue="team"))
    told.arrive(*(of_team(f"{name}{number}", needs, gang=name) for number in range(count)))
    assert all(f"{name}{number}" in told.binds for number in range(count))


def test_members_above_the_minimum_go_before_a_whole_gang() -> None:
    told = story(gpus=4)
    gang_runs(told, "g", 2, 4)
    assert len(evicted(told.arrive(of_team("x", priority=5)))) == 1
    assert len(evicted(told.arrive(of_team("y", priority=5)))) == 1
    said = told.arrive(of_team("z", priority=5))
    assert len(evicted(said)) == 2, "the rest is a whole gang, and goes as one"


def test_single_pods_go_before_a_gang_of_the_same_priority() -> None:
    told = story(gpus=2, nodes=2)
    gang_runs(told, "g", 2, 2)
    told.arrive(of_team("alone", shape(2)))
    assert evicted(told.arrive(of_team("x", shape(2), priority=5))) == {"alone": "x"}
    assert set(evicted(told.arrive(of_team("y", shape(2), priority=5)))) == {"g0", "g1"}


def test_a_gang_of_which_one_member_may_not_go_stays_whole() -> None:
    told = story(gpus=2)
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(of_team("g0", gang="g", preemptible=False), of_team("g1", gang="g"))
    assert evicted(told.arrive(of_team("x", priority=5))) == {}


def test_roles_keep_their_minimum_when_surplus_goes() -> None:
    told = story(gpus=3)
    told.gangs(gang("g", 1, queue="team", roles=(("lead", 1),)))
    told.arrive(
        of_team("lead", gang="g", role="lead"), *(of_team(f"w{n}", gang="g", role="work") for n in (0, 1))
    )
    assert set(evicted(told.arrive(of_team("x", shape(2), priority=5)))) == {"w0", "w1"}


def asks_as_gang(told: Story, minimum: int, count: int, needs: Shape) -> dict[str, str | None]:
    """A gang of higher priority arrives; its victims."""
    told.gangs(gang("asks", minimum, queue="team", priority=5))
    return evicted(told.arrive(*(of_team(f"m{number}", needs, gang="asks") for number in range(count))))


def test_a_gang_evicts_for_its_minimum_and_no_more() -> None:
    told = story(gpus=1, nodes=5)
    told.arrive(*(of_team(f"p{number}") for number in range(5)))
    victims = asks_as_gang(told, 3, 5, shape(1))
    assert len(victims) == 3
    assert set(victims.values()) == {"asks"}
    first, *others = victims
    assert placed(told.depart(first)) == []
    assert len(placed(told.depart(*others))) == 3


def test_a_gang_that_would_not_fit_all_the_same_evicts_nobody() -> None:
    told = story(gpus=1, nodes=3)
    told.arrive(of_team("p0"), of_team("p1"), of_team("p2", priority=9))
    assert asks_as_gang(told, 3, 3, shape(1)) == {}


def test_a_gang_takes_the_cheapest_victims_that_are_enough() -> None:
    told = story(gpus=2, nodes=3)
    told.arrive(*(of_team(f"p{number}", shape(2), priority=number) for number in range(3)))
    assert set(asks_as_gang(told, 2, 2, shape(2))) == {"p0", "p1"}


def test_a_gang_that_needs_whole_nodes_takes_no_victim_that_does_not_help() -> None:
    told = story(gpus=2, nodes=3)
    told.run_on(of_team("useless", priority=0), "n0", "n0/0")
    told.run_on(of_team("rock", priority=9), "n0", "n0/1")
    told.run_on(of_team("a", shape(2), priority=1), "n1", "n1/0", "n1/1")
    told.run_on(of_team("b", shape(2), priority=1), "n2", "n2/0", "n2/1")
    assert set(asks_as_gang(told, 2, 2, shape(2))) == {"a", "b"}


def test_those_go_whose_gpus_are_near_each_other_where_that_is_needed() -> None:
    """The two of the lowest priority hold GPUs of two links; one link is free when somebody else goes too."""
    told = story(nodes=0)
    told.nodes(node("pairs", 4, link_group_size=2))
    for index, priority in enumerate((0, 2, 1, 3)):
        told.run_on(of_team(f"on {index}", priority=priority), "pairs", f"pairs/{index}")
    said = told.arrive(of_team("needs a link", shape(2, within=Within.LINK_GROUP), priority=9))
    assert evicted(said) == {"on 0": "needs a link", "on 1": "needs a link"}
    told.depart("on 0", "on 1")
    assert told.binds["needs a link"][1] == ("pairs/0", "pairs/1")


def test_gpus_that_are_free_but_apart_are_no_room_for_who_needs_a_link() -> None:
    told = story(nodes=0)
    told.nodes(node("pairs", 4, link_group_size=2))
    told.run_on(of_team("first"), "pairs", "pairs/0")
    told.run_on(of_team("second", priority=1), "pairs", "pairs/2")
    linked = shape(2, within=Within.LINK_GROUP)
    assert evicted(told.arrive(of_team("p", linked, priority=9))) == {"first": "p"}


def test_nobody_goes_beside_one_who_is_enough_because_those_of_lower_priority_would_not_do() -> None:
    told = story(gpus=4)
    told.arrive(
        of_team("high-share", share(300), priority=2),
        of_team("low-share", share(300)),
        of_team("other-low-share", share(300)),
        of_team("high", priority=3),
        of_team("middle", shape(2), priority=1),
    )
    # Two of priority 0 hold a part of one GPU, on which another stays.
    assert evicted(told.arrive(of_team("new", shape(2), priority=3))) == {"middle": "new"}
