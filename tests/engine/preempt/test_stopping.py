"""A stopped queue: what runs in it is told to end, for nobody's sake, as far as disruption budgets allow."""

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import Evict, QueueBar, WhyBarred, WhyEvicted
from gpufleet.engine.preempt.victims import NoVictims
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.labels import LabelSelector
from gpufleet.model.queue import QueueState
from tests.engine.fleet_builder import Story, evicted, gang, members, node, nominated, placed, pod, shape
from tests.engine.fleet_builder import withdrawn as no_longer_nominated
from tests.engine.queueing.queue_builder import queue, quota

GPUS = 1000


def running(told: Story, *uids: str, name: str = "team", preemptible: bool = True) -> None:
    """Pods of a queue that have their nodes for sure."""
    pods = [pod(uid, shape(1), queue=name, preemptible=preemptible) for uid in uids]
    told.arrive(*pods)
    told.happen(*(event.PodBound(one, node("n", 0).name) for one in pods))


def story(*, victims: NoVictims | None = None) -> Story:
    told = Story(victims=victims)
    told.nodes(node("n", 4))
    told.queues(queue("root"), queue("team", parent="root"), queue("other", parent="root"))
    return told


def test_what_runs_in_a_stopped_queue_or_below_one_is_told_to_end_once() -> None:
    told = story()
    running(told, "a", "b")
    running(told, "kept", name="other")
    said = told.queues(queue("team", parent="root", state=QueueState.STOPPED))
    assert [one for one in said if isinstance(one, Evict)] == [
        Evict(PodUid("a"), None, WhyEvicted.STOPPED),
        Evict(PodUid("b"), None, WhyEvicted.STOPPED),
    ]
    assert evicted(told.wait_s(100)) == {}
    told.depart("a", "b")
    assert set(evicted(told.queues(queue("root", state=QueueState.STOPPED)))) == {"kept"}


def test_held_and_draining_queues_keep_what_runs() -> None:
    told = story()
    running(told, "a")
    assert evicted(told.queues(queue("team", parent="root", state=QueueState.HELD))) == {}
    assert evicted(told.queues(queue("team", parent="root", state=QueueState.DRAINING))) == {}


def test_who_is_not_preemptible_ends_too_and_whole_gangs_do() -> None:
    told = story()
    running(told, "a", preemptible=False)
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(*members("g", 2, shape(1)))
    for one in members("g", 2, shape(1)):
        told.happen(event.PodBound(one, node("n", 0).name))
    said = told.queues(queue("team", parent="root", state=QueueState.STOPPED))
    assert set(evicted(said)) == {"a", "g-0", "g-1"}


def test_what_another_scheduler_placed_without_a_gpu_stays() -> None:
    told = story()
    service = msgspec.structs.replace(pod("dns", shape(cpu_milli=100), queue="team"), foreign=True)
    theirs = msgspec.structs.replace(pod("theirs", shape(1), queue="team"), foreign=True)
    told.happen(*(event.PodBound(one, node("n", 0).name) for one in (service, theirs)))
    assert set(evicted(told.queues(queue("team", parent="root", state=QueueState.STOPPED)))) == {"theirs"}


def test_a_disruption_budget_keeps_them_until_it_allows_more() -> None:
    told = story()
    everybody = LabelSelector()
    told.happen(event.DisruptionBudgetSet(DisruptionBudget("b", "", everybody, 1)))
    running(told, "a", "b")
    first = evicted(told.queues(queue("team", parent="root", state=QueueState.STOPPED)))
    assert set(first.values()) == {None}
    assert len(first) == 1
    told.depart(*first)
    told.happen(event.DisruptionBudgetSet(DisruptionBudget("b", "", everybody, 0)))
    assert len(evicted(told.happen(event.DisruptionBudgetSet(DisruptionBudget("b", "", everybody, 1))))) == 1


def test_an_eviction_that_is_refused_is_asked_for_again_later() -> None:
    told = story()
    running(told, "a")
    told.queues(queue("team", parent="root", state=QueueState.STOPPED))
    assert evicted(told.refuse_eviction("a", for_s=10)) == {}
    assert evicted(told.wait_s(9)) == {}
    assert set(evicted(told.wait_s(2))) == {"a"}


def test_a_pod_whose_bind_is_under_way_ends_when_it_has_its_node() -> None:
    told = story()
    told.arrive(pod("a", shape(1), queue="team"))
    assert evicted(told.queues(queue("team", parent="root", state=QueueState.STOPPED))) == {}
    bound = event.PodBound(pod("a", shape(1), queue="team"), node("n", 0).name)
    assert set(evicted(told.happen(bound))) == {"a"}


def test_where_nobody_is_ever_evicted_a_stopped_queue_only_starts_nothing() -> None:
    told = story(victims=NoVictims())
    running(told, "a")
    assert evicted(told.queues(queue("team", parent="root", state=QueueState.STOPPED))) == {}


def test_no_place_is_kept_for_work_of_a_queue_that_closes() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.queues(queue("team"), queue("other"))
    running(told, "low")
    told.told_to_end("low")
    assert set(nominated(told.arrive(pod("next", shape(1), queue="other")))) == {"next"}
    assert no_longer_nominated(told.queues(queue("other", state=QueueState.HELD))) == ["next"]
    told.arrive(pod("third", shape(1), queue="team"))
    assert placed(told.depart("low")) == ["third"]


def test_a_moment_since_when_a_queue_drains_outlives_a_restart() -> None:
    draining = queue("team", quota("gpu", 2 * GPUS), state=QueueState.DRAINING, draining_since_us=50)
    told = Story()
    told.nodes(node("n", 4))
    told.queues(draining)
    before = pod("before", shape(1), queue="team", created_at_us=50)
    late = pod("late", shape(1), queue="team", created_at_us=51)
    assert placed(told.arrive(late, before)) == ["before"]
    told.gangs(gang("g", 1, queue="team"))
    assert placed(told.arrive(*members("g", 1, shape(1)))) == ["g-0"]
    verdict = told.engine.explain(PodUid("late"))
    assert verdict is not None
    assert verdict.bar == QueueBar(QueueName("team"), WhyBarred.DRAINING)
