"""The view for reports: each queue's amounts by hand, and why its work waits."""

from gpufleet.engine.explanations.queue_report import QueueUse, ResourceUse
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.queue import QueueState
from tests.engine.fleet_builder import Story, gang, members, node, pod, shape
from tests.engine.queueing.queue_builder import queue, quota


def use_of(told: Story, name: str) -> QueueUse:
    """One queue of the report."""
    return next(one for one in told.engine.queue_report() if one.queue == name)


def gpu(told: Story, name: str) -> ResourceUse:
    """What the report says of a queue's GPUs."""
    return next(one for one in use_of(told, name).resources if one.resource == "gpu")


def test_without_queues_there_is_nothing_to_report() -> None:
    told = Story()
    told.arrive(pod("a"))
    assert told.engine.queue_report() == ()


def test_what_is_borrowed_is_lent_by_who_has_it_idle() -> None:
    told = Story()
    told.nodes(node("n", 16))
    told.queues(
        queue("root", quota("gpu", 1000)),
        queue("a", quota("gpu", 2000, borrow=9000), parent="root"),
        queue("b", quota("gpu", 4000), parent="root"),
        queue("c", quota("gpu", 4000, lend=2000, hard=5000), parent="root"),
    )
    told.arrive(pod("one", shape(6), queue="a"), pod("two", shape(1), queue="b"))
    resource = QuotaResource("gpu")
    # 4 borrowed: 1 is the root's own; of the other 3, b has 3 idle and c lends 2: in proportion 1.8 and 1.2.
    assert gpu(told, "a") == ResourceUse(resource, 2000, 6000, 4000, 0, 2000, borrowing_limit=9000)
    assert gpu(told, "b") == ResourceUse(resource, 4000, 1000, 0, 1800, 2000)
    assert gpu(told, "c") == ResourceUse(
        resource, 4000, 0, 0, 1200, 4000, lending_limit=2000, hard_limit=5000
    )
    assert gpu(told, "root") == ResourceUse(resource, 1000, 7000, 0, 0, 2000)
    assert [one.queue for one in told.engine.queue_report()] == ["root", "a", "b", "c"]


def test_waiting_pods_are_counted_by_reason() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.queues(queue("team", quota("gpu", 6000)), queue("held", state=QueueState.HELD))
    told.arrive(
        pod("runs", shape(3), queue="team"),
        pod("too large", shape(8), queue="team"),
        pod("no room", shape(2), queue="team"),
        pod("no room either", shape(2), queue="team"),
        pod("held", queue="held"),
        pod("lost", queue="nobody"),
    )
    told.gangs(gang("g", 3, queue="team"))
    told.arrive(*members("g", 2, shape(1)))
    assert use_of(told, "team").pending == {"incomplete-gang": 2, "nodes": 2, "quota": 1}
    assert use_of(told, "held").pending == {"held": 1}
    assert use_of(told, "nobody").pending == {"unknown": 1}
    assert not use_of(told, "nobody").is_described
    told.refuse("runs")
    assert use_of(told, "team").pending["backoff"] == 1
