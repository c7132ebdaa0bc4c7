"""A limit to run times is a known end."""

import msgspec
import pytest

from gpufleet.engine.event import PodAdded, PodBound, QueueSet
from gpufleet.engine.instruction import Outlook, RunTimeLimit
from gpufleet.engine.preempt.victims import NoVictims
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, placed, pod, shape
from tests.engine.queueing.queue_builder import queue
from tests.engine.reserve.holders import running, team


def limited(one: Pod, limit_s: int) -> Pod:
    """A pod that limits its own run time."""
    return msgspec.structs.replace(one, run_time_max_us=limit_s * SECOND_US)


def limiting(one: Queue, limit_s: int) -> Queue:
    """A queue that limits the run times of its work."""
    return msgspec.structs.replace(one, run_time_max_us=limit_s * SECOND_US)


def start_us(old: Pod, *queues: Queue, victims: NoVictims | None = None) -> int | None:
    """When a gang of two is expected to start, of which one waits for this pod."""
    (held,) = gang_behind(old, *queues, victims=victims).engine.reservations()
    return held.start_us


def gang_behind(old: Pod, *queues: Queue, victims: NoVictims | None = None) -> Story:
    story = Story(victims=victims)
    story.nodes(node("a", 1), node("b", 1))
    story.queues(*(queues or (team(),)))
    story.run_on(old, "a", "a/0")
    story.gangs(gang("g", 2, queue="team"))
    story.arrive(*members("g", 2, shape(1)))
    return story


OLD = pod("old", shape(1), queue="team")


def test_work_ends_at_its_own_limit() -> None:
    assert start_us(limited(OLD, 60)) == 60 * SECOND_US


def test_or_at_that_of_its_queue_or_one_above() -> None:
    root = limiting(queue("root"), 90)
    below = msgspec.structs.replace(team(), parent=QueueName("root"))
    assert start_us(OLD, root, below) == 90 * SECOND_US


@pytest.mark.parametrize(("says_s", "limit_s"), [(60, 90), (90, 60)])
def test_or_at_what_it_said_if_that_is_earlier(says_s: int, limit_s: int) -> None:
    assert start_us(limited(running("old", shape(1), for_s=says_s), limit_s)) == 60 * SECOND_US


def test_one_that_runs_for_longer_than_it_said_ends_at_its_limit() -> None:
    story = gang_behind(limited(running("old", shape(1), for_s=10), 60))
    story.wait_s(11)
    (held,) = story.engine.reservations()
    assert held.start_us == 60 * SECOND_US


def test_no_limit_counts_where_nobody_is_ever_evicted() -> None:
    assert start_us(limited(OLD, 60), victims=NoVictims()) is None


def test_nor_of_what_another_scheduler_placed() -> None:
    assert start_us(msgspec.structs.replace(limited(OLD, 60), foreign=True)) is None


@pytest.mark.parametrize(("limit_s", "comes"), [(60, True), (61, False)])
def test_limited_work_is_let_in_if_it_must_end_in_time(limit_s: int, comes: bool) -> None:
    story = gang_behind(running("old", shape(1), for_s=60))
    said = story.arrive(limited(pod("small", shape(1), queue="team"), limit_s))
    assert placed(said) == (["small"] if comes else [])


def test_work_of_one_shape_with_a_limit_does_not_wait_behind_work_without() -> None:
    story = gang_behind(running("old", shape(1), for_s=60))
    story.arrive(pod("endless", shape(1), queue="team"))
    assert placed(story.arrive(limited(pod("small", shape(1), queue="team"), 60))) == ["small"]


def test_a_limit_that_a_queue_gets_later_lets_its_work_in() -> None:
    story = gang_behind(running("old", shape(1), for_s=60), team(), team("short"))
    assert placed(story.arrive(pod("small", shape(1), queue="short"))) == []
    assert placed(story.happen(QueueSet(limiting(team("short"), 60)))) == ["small"]


def test_the_outlook_of_a_gang_is_the_end_of_the_first_of_it() -> None:
    story = Story()
    story.nodes(node("a", 2))
    story.queues(team())
    story.gangs(gang("g", 2, queue="team"))
    first, second = members("g", 2, shape(1))
    story.happen(PodAdded(limited(first, 90)), PodAdded(limited(second, 60)))
    for number, one in enumerate((limited(first, 90), limited(second, 60))):
        device = story.engine.state.pods.device_ids(story.engine.state.pods.row_by_uid[one.uid])[0]
        assert device is not None
        story.happen(PodBound(one, NodeName("a"), (DeviceId(device),), number * SECOND_US))
    expected = Outlook(61 * SECOND_US, RunTimeLimit(60 * SECOND_US, None), ())
    assert story.engine.outlook(PodUid("g-0")) == story.engine.outlook(PodUid("g-1")) == expected


def test_who_waits_has_no_outlook() -> None:
    story = gang_behind(OLD)
    assert story.engine.outlook(PodUid("g-0")) is None
    assert story.engine.outlook(PodUid("nobody")) is None
    assert story.engine.outlook(PodUid("old")) == Outlook(None, None, ())
