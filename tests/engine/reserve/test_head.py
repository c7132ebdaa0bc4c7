"""Work that must wait holds the place where it will start first."""

from gpufleet.engine.instruction import ReservationEnded, Reserved
from gpufleet.model.identifiers import PodUid, QuotaResource
from gpufleet.model.queue import Quota
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, placed, pod, shape
from tests.engine.queueing.queue_builder import queue
from tests.engine.reserve.holders import holders, running, team


def test_a_pod_that_waits_holds_the_node_where_the_work_ends_first() -> None:
    story = Story()
    story.nodes(node("a", 2), node("b", 2))
    story.queues(team())
    story.run_on(running("long", shape(2), for_s=600), "a", "a/0", "a/1")
    story.run_on(running("short", shape(2), for_s=60), "b", "b/0", "b/1")
    said = story.arrive(pod("waits", shape(2), queue="team"))
    assert [one.reservation.places[0].node for one in said if isinstance(one, Reserved)] == ["b"]
    (held,) = story.engine.reservations()
    assert (held.holder, held.start_us, held.queue) == ("waits", 60 * SECOND_US, "team")


def test_work_without_a_known_end_is_kept_off_what_is_reserved() -> None:
    story = gang_that_waits()
    assert placed(story.arrive(pod("small", shape(1), queue="team"))) == []
    assert placed(story.depart("old")) == ["g-0", "g-1"]


def test_work_that_ends_before_the_holder_starts_may_run_there() -> None:
    story = gang_that_waits()
    assert placed(story.arrive(running("brief", shape(1), for_s=60))) == ["brief"]
    assert holders(story) == ["g"]


def test_work_that_ends_later_may_not() -> None:
    story = gang_that_waits()
    assert placed(story.arrive(running("lengthy", shape(1), for_s=61))) == []


def test_the_holder_waits_for_work_that_was_let_in_before_it() -> None:
    story = gang_that_waits()
    story.arrive(running("brief", shape(1), for_s=60))
    assert placed(story.depart("old")) == []
    assert placed(story.depart("brief")) == ["g-0", "g-1"]


def test_work_with_a_better_right_goes_first() -> None:
    story = gang_that_waits()
    assert placed(story.arrive(pod("urgent", shape(1), queue="team", priority=1))) == ["urgent"]
    assert holders(story) == ["g"]


def test_an_end_that_passed_is_not_known_any_more() -> None:
    story = gang_that_waits()
    story.wait_s(61)
    (held,) = story.engine.reservations()
    assert held.start_us is None
    assert placed(story.arrive(running("brief", shape(1), for_s=1))) == []


def test_nobody_holds_anything_before_it_has_waited_as_long_as_its_queue_says() -> None:
    story = Story()
    story.nodes(node("a", 2))
    story.queues(team(reserve_after_s=300))
    story.run_on(running("old", shape(1), for_s=3600), "a", "a/0")
    story.arrive(pod("large", shape(2), queue="team"))
    assert holders(story) == []
    story.wait_s(300)
    assert holders(story) == ["large"]


def test_work_of_no_described_queue_holds_nothing() -> None:
    story = Story()
    story.nodes(node("a", 2))
    story.run_on(running("old", shape(1), for_s=60), "a", "a/0")
    story.arrive(pod("large", shape(2)))
    story.wait_s(3600)
    assert holders(story) == []


def test_what_is_reserved_is_not_in_use() -> None:
    story = Story()
    story.nodes(node("a", 2))
    story.queues(queue("team", Quota(QuotaResource("gpu"), 2000), reserve_after_s=0))
    story.run_on(running("old", shape(1), for_s=60), "a", "a/0")
    story.arrive(pod("large", shape(2), queue="team"))
    (use,) = story.engine.queue_report()
    assert [(one.resource, one.used) for one in use.resources] == [("gpu", 1000)]
    assert use.pending == {"reserved": 1}
    assert holders(story) == ["large"]


def test_quota_that_is_reserved_is_told_apart_from_quota_in_use() -> None:
    story = Story()
    story.nodes(node("a", 2))
    story.queues(queue("team", Quota(QuotaResource("gpu"), 2000), reserve_after_s=0))
    story.run_on(running("old", shape(1), for_s=60), "a", "a/0")
    story.arrive(pod("large", shape(2), queue="team"), pod("small", shape(1), queue="team"))
    verdict = story.engine.explain(PodUid("small"))
    assert verdict is not None
    assert verdict.quota is not None
    assert (verdict.quota.used, verdict.quota.reserved, verdict.quota.missing) == (1000, 2000, 2000)
    (use,) = story.engine.queue_report()
    assert [one.used for one in use.resources] == [1000], "a question changes no counts"


def test_a_reservation_ends_with_its_holder() -> None:
    story = gang_that_waits()
    story.arrive(pod("small", shape(1), queue="team"))
    said = story.depart("g-0", "g-1")
    assert [one.holder for one in said if isinstance(one, ReservationEnded)] == ["g"]
    assert placed(said) == ["small"]


def test_a_strict_queue_stays_behind_its_holder() -> None:
    story = Story()
    story.nodes(node("a", 2), node("b", 1, model="T4"))
    story.queues(queue("team", strict=True, reserve_after_s=0))
    story.run_on(running("old", shape(2), for_s=60), "a", "a/0", "a/1")
    story.arrive(pod("large", shape(2, models=("A100",)), queue="team"))
    assert holders(story) == ["large"]
    assert placed(story.arrive(pod("small", shape(1), queue="team"))) == []


def gang_that_waits() -> Story:
    """Two nodes of one GPU; on one of them runs what ends after a minute, and a gang wants both."""
    story = Story()
    story.nodes(node("a", 1), node("b", 1))
    story.queues(team())
    story.run_on(running("old", shape(1), for_s=60), "a", "a/0")
    story.gangs(gang("g", 2, queue="team"))
    story.arrive(*members("g", 2, shape(1)))
    assert holders(story) == ["g"]
    return story
