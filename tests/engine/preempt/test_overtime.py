"""Running work ends when it has run for as long as it, its queue, or one above that allows."""

from collections.abc import Iterable

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Evict, RequeueAfter, RunTimeLimit, WhyEvicted
from gpufleet.engine.preempt.victims import NoVictims
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import NodeName, PodUid, QueueName
from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, members, node, pod, shape
from tests.engine.queueing.queue_builder import queue, quota

EVERYBODY = LabelSelector()


def limited(uid: str, limit_s: int | None = None, *, team: str = "team", preemptible: bool = True) -> Pod:
    """A pod that may run for so long, by its own word."""
    plain = pod(uid, shape(1), queue=team, preemptible=preemptible)
    return msgspec.structs.replace(plain, run_time_max_us=microseconds(limit_s))


def allowing(name: str, limit_s: int | None, parent: str | None = None) -> Queue:
    """A queue whose work may run for so long."""
    plain = queue(name, quota("gpu", 8000), parent=parent)
    return msgspec.structs.replace(plain, run_time_max_us=microseconds(limit_s))


def microseconds(limit_s: int | None) -> int | None:
    return None if limit_s is None else limit_s * SECOND_US


def run(told: Story, *pods: Pod) -> list[AnyInstruction]:
    """These pods begin to run now."""
    told.arrive(*pods)
    return told.happen(*(event.PodBound(one, NodeName("n"), ()) for one in pods))


def at_work(*pods: Pod, queues: tuple[Queue, ...] = (), gangs: tuple[Gang, ...] = ()) -> Story:
    """These pods have just begun to run."""
    told = Story()
    told.nodes(node("n", 8))
    told.queues(*queues)
    told.gangs(*gangs)
    run(told, *pods)
    return told


def ends(said: Iterable[AnyInstruction]) -> list[Evict]:
    return [one for one in said if isinstance(one, Evict)]


def budget(told: Story, allowed: int) -> list[AnyInstruction]:
    return told.happen(event.DisruptionBudgetSet(DisruptionBudget("b", "", EVERYBODY, allowed)))


def test_a_pod_is_ended_at_its_limit_and_a_step_is_asked_for_then() -> None:
    told = at_work(limited("p", 60))
    said = told.wait_s(59)
    assert not evicted(said)
    assert RequeueAfter(60 * SECOND_US) in said
    limit = RunTimeLimit(60 * SECOND_US, None)
    assert ends(told.wait_s(1)) == [Evict(PodUid("p"), None, WhyEvicted.OVERTIME, limit)]


def test_nobody_is_told_twice() -> None:
    told = at_work(limited("p", 60))
    assert evicted(told.wait_s(60)) == {"p": None}
    assert not evicted(told.wait_s(600))


def test_who_is_not_preemptible_ends_too() -> None:
    assert set(evicted(at_work(limited("p", 60, preemptible=False)).wait_s(60))) == {"p"}


def test_who_ended_before_is_forgotten() -> None:
    told = at_work(limited("p", 60))
    told.depart("p")
    assert not [one for one in told.wait_s(1) if isinstance(one, RequeueAfter)]
    assert not evicted(told.wait_s(100))


def test_the_shortest_limit_of_the_pod_and_its_queues_counts_and_is_named() -> None:
    queues = (allowing("root", 100), allowing("team", 200, "root"), allowing("free", None, "root"))
    told = at_work(limited("own", 50), limited("named", 150), limited("none", team="free"), queues=queues)
    assert ends(told.wait_s(50)) == [
        Evict(PodUid("own"), None, WhyEvicted.OVERTIME, RunTimeLimit(50 * SECOND_US, None))
    ]
    of_root = RunTimeLimit(100 * SECOND_US, QueueName("root"))
    assert ends(told.wait_s(50)) == [
        Evict(PodUid(uid), None, WhyEvicted.OVERTIME, of_root) for uid in ("named", "none")
    ]


def test_a_limit_that_comes_later_counts_from_the_start() -> None:
    told = at_work(limited("p"), queues=(allowing("team", None),))
    told.wait_s(100)
    assert not evicted(told.queues(allowing("team", 300)))
    assert list(evicted(told.queues(allowing("team", 90)))) == ["p"]


def test_a_limit_above_that_comes_later_counts_below_it() -> None:
    told = at_work(limited("p"), queues=(allowing("root", None), allowing("team", None, "root")))
    told.wait_s(100)
    assert list(evicted(told.queues(allowing("root", 90)))) == ["p"]


def test_a_limit_that_is_raised_or_taken_away_no_longer_ends_anybody() -> None:
    told = at_work(limited("p"), queues=(allowing("team", 60),))
    told.queues(allowing("team", 120))
    assert not evicted(told.wait_s(100))
    told.queues(allowing("team", None))
    assert not evicted(told.wait_s(1000))


def test_a_queue_that_is_removed_limits_nobody() -> None:
    told = at_work(limited("p"), queues=(allowing("team", 60), allowing("other", 10)))
    told.happen(event.QueueRemoved(QueueName("team")))
    assert not evicted(told.wait_s(1000))


def test_a_pod_that_is_another_queues_now_has_the_limit_of_that_one() -> None:
    told = at_work(limited("p"), queues=(allowing("team", None), allowing("strict", 60)))
    told.wait_s(100)
    assert list(evicted(told.run_on(limited("p", team="strict"), "n"))) == ["p"]


def test_work_that_ran_before_it_was_heard_of_counts_from_its_start() -> None:
    told = at_work()
    told.at_us = 1000 * SECOND_US
    told.happen(event.PodBound(limited("p", 60), NodeName("n"), (), 960 * SECOND_US))
    assert not evicted(told.wait_s(19))
    assert list(evicted(told.wait_s(1))) == ["p"]


def test_a_refused_eviction_is_asked_for_again() -> None:
    told = at_work(limited("p", 60))
    assert evicted(told.wait_s(60))
    assert not evicted(told.refuse_eviction("p", for_s=100))
    assert not evicted(told.wait_s(60))
    assert evicted(told.wait_s(50))


def test_a_refusal_that_comes_long_after_is_asked_for_again_too() -> None:
    told = at_work(limited("p", 60))
    assert evicted(told.wait_s(60))
    told.wait_s(120)
    told.refuse_eviction("p", for_s=5)
    assert evicted(told.wait_s(20))


def test_a_disruption_budget_is_waited_for() -> None:
    told = at_work(limited("p", 60))
    budget(told, 0)
    said = told.wait_s(100)
    assert not evicted(said)
    assert [one for one in said if isinstance(one, RequeueAfter)]
    budget(told, 1)
    assert evicted(told.wait_s(10))


def test_a_budget_for_one_lets_one_go_after_another() -> None:
    told = at_work(limited("p", 60), limited("q", 60))
    budget(told, 1)
    first = list(evicted(told.wait_s(60)))
    assert first == ["p"]
    assert not evicted(told.wait_s(10))
    told.depart("p")
    budget(told, 1)
    assert list(evicted(told.wait_s(10))) == ["q"]


def of_gang(count: int, limit_s: int | None = None) -> list[Pod]:
    found = members("g", count, shape(1))
    return [msgspec.structs.replace(one, run_time_max_us=microseconds(limit_s)) for one in found]


def test_a_gang_ends_as_a_whole_those_who_joined_later_too() -> None:
    first, second, late = of_gang(3, 60)
    told = at_work(first, second, gangs=(gang("g", 2),))
    told.wait_s(30)
    run(told, late)
    assert set(evicted(told.wait_s(30))) == {"g-0", "g-1", "g-2"}


def test_a_gang_has_the_limit_of_its_own_queue() -> None:
    queues = (allowing("team", 60), allowing("free", None))
    told = at_work(*of_gang(2), queues=queues, gangs=(gang("g", 2, queue="free"),))
    assert not evicted(told.wait_s(100))
    assert set(evicted(told.gangs(gang("g", 2, queue="team")))) == {"g-0", "g-1"}


def test_a_budget_that_lets_only_a_part_of_a_gang_go_keeps_it_whole() -> None:
    told = at_work(*of_gang(3, 60), gangs=(gang("g", 3),))
    budget(told, 2)
    assert not evicted(told.wait_s(100))
    budget(told, 3)
    assert set(evicted(told.wait_s(10))) == {"g-0", "g-1", "g-2"}


def test_what_another_scheduler_placed_is_not_ended() -> None:
    told = at_work(queues=(allowing("team", 60),))
    told.run_on(msgspec.structs.replace(limited("p", 30), foreign=True), "n")
    assert not evicted(told.wait_s(1000))


def test_a_member_of_a_gang_that_another_scheduler_placed_is_not_ended_with_it() -> None:
    ours, theirs = of_gang(2, 60)
    told = at_work(gangs=(gang("g", 1),))
    told.run_on(ours, "n")
    told.run_on(msgspec.structs.replace(theirs, foreign=True), "n")
    assert set(evicted(told.wait_s(60))) == {"g-0"}


def test_a_pod_whose_bind_is_under_way_ends_when_it_has_its_node() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.arrive(limited("p", 60))
    assert not evicted(told.wait_s(100))
    told.run_on(limited("p", 60), "n")
    assert list(evicted(told.wait_s(60))) == ["p"]


def test_where_nobody_is_ever_evicted_nobody_is_ended() -> None:
    told = Story(victims=NoVictims())
    told.nodes(node("n", 8))
    run(told, limited("p", 60))
    said = told.wait_s(1000)
    assert not evicted(said)
    assert not [one for one in said if isinstance(one, RequeueAfter)]
