"""How long work runs that does not say so is learned from others like it, and no holder ever counts on it."""

import msgspec
import pytest

from gpufleet.engine.event import (
    LearnedRuns,
    PodAdded,
    PodBound,
    ReservationsRecalled,
    RunTimesRecalled,
)
from gpufleet.engine.instruction import Rejected
from gpufleet.engine.learn.run_times import ALIKE_MAX, LONGEST_US, LearnedRunTimes, stem
from gpufleet.model.identifiers import DeviceId, NodeName, QueueName
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, members, node, placed, pod, shape
from tests.engine.queueing.queue_builder import queue
from tests.engine.reserve.holders import holders, running, team

MINUTE_S = 60
LETTERS = "bcdfg"
"""Some of those of which Kubernetes makes names."""
LEARNS = queue("small", reserve_after_s=None, learn_run_times=True)


def named(uid: str, name: str, *, preemptible: bool = True) -> Pod:
    """A pod of one GPU of the queue that learns, which does not say how long it runs."""
    one = pod(uid, shape(1), queue="small", preemptible=preemptible)
    return msgspec.structs.replace(one, name=f"team-a/{name}")


def runs(story: Story, *minutes: float, name: str = "nightly") -> None:
    """Pods of one template run for so long, one after the other."""
    for number, length in enumerate(minutes):
        one = named(f"{name}-{number}", f"{name}-2893451{number}-x7k2{LETTERS[number]}")
        story.run_on(one, "b", "b/0")
        story.wait_s(length * MINUTE_S)
        story.depart(one.uid)


def large_waits(*minutes: float, until_min: int | None = 60) -> Story:
    """A pod holds a reservation of two nodes, on one of which work runs that says when it ends (None: that
    does not say it); before that, runs of so many minutes have ended.
    """
    story = Story()
    story.nodes(node("a", 1), node("b", 1))
    story.queues(team(), LEARNS)
    runs(story, *minutes)
    for_s = None if until_min is None else until_min * MINUTE_S
    story.run_on(running("old", shape(1), for_s=for_s), "a", "a/0")
    story.gangs(gang("g", 2, queue="team"))
    story.arrive(*members("g", 2, shape(1)))
    assert holders(story) == ["g"]
    return story


def test_work_like_which_others_ended_in_time_runs_before_a_reservation() -> None:
    story = large_waits(10, 20, 30, 40, 48)  # 48 minutes and a quarter are an hour
    assert placed(story.arrive(named("next", "nightly-28934599-abc"))) == []
    assert placed(story.arrive(named("next", "nightly-28934599-b7zzz"))) == ["next"]
    assert holders(story) == ["g"]


@pytest.mark.parametrize(
    ("minutes", "why"),
    [
        ((10, 20, 30, 40), "four runs are too few"),
        ((10, 20, 30, 40, 49), "61 minutes and 15 seconds are too long"),
    ],
)
def test_others_wait(minutes: tuple[float, ...], why: str) -> None:
    story = large_waits(*minutes)
    assert placed(story.arrive(named("next", "nightly-28934599-b7zzz"))) == [], why


def test_a_place_is_lent_to_learned_work_while_nobody_knows_when_its_holder_can_start() -> None:
    story = large_waits(10, 20, 30, 40, 600, until_min=None)
    assert placed(story.arrive(named("next", "nightly-28934599-b7zzz"))) == ["next"]
    assert holders(story) == ["g"]
    assert evicted(story.depart("old")) == {"next": "g"}
    assert placed(story.depart("next")) == ["g-0", "g-1"]


def test_a_place_is_not_lent_to_work_of_which_too_little_was_learned() -> None:
    story = large_waits(10, 20, 30, 40, until_min=None)
    assert placed(story.arrive(named("next", "nightly-28934599-b7zzz"))) == []


def test_a_place_is_not_lent_to_work_that_says_how_long_it_runs() -> None:
    story = large_waits(10, 20, 30, 40, 48, until_min=None)
    said = msgspec.structs.replace(named("next", "nightly-28934599-b7zzz"), run_time_us=60 * SECOND_US)
    assert placed(story.arrive(said)) == []


def test_the_start_of_the_holder_is_told_by_what_work_says_itself_alone() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    before = story.engine.reservations()[0].start_us
    story.arrive(named("next", "nightly-28934599-b7zzz"))
    assert story.engine.reservations()[0].start_us == before


def test_who_overruns_ends_when_the_holder_can_start() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    story.arrive(named("next", "nightly-28934599-b7zzz"))
    story.wait_s(60 * MINUTE_S)
    assert evicted(story.depart("old")) == {"next": "g"}
    assert placed(story.depart("next")) == ["g-0", "g-1"]


def test_who_ends_in_time_is_in_nobodys_way() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    story.arrive(named("next", "nightly-28934599-b7zzz"))
    story.wait_s(50 * MINUTE_S)
    story.depart("next")
    assert placed(story.depart("old")) == ["g-0", "g-1"]


def test_what_is_never_evicted_is_no_guest() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    assert placed(story.arrive(named("next", "nightly-28934599-b7zzz", preemptible=False))) == []


def test_who_says_how_long_it_runs_is_taken_at_its_word() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    said = named("next", "nightly-28934599-b7zzz")
    too_long = msgspec.structs.replace(said, run_time_us=2 * 3600 * SECOND_US)
    assert placed(story.arrive(too_long)) == []


def test_only_queues_that_ask_for_it_learn() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    assert placed(story.queues(msgspec.structs.replace(LEARNS, learn_run_times=False))) == []
    assert placed(story.arrive(named("next", "nightly-28934599-b7zzz"))) == []
    story.queues(LEARNS)
    assert placed(story.arrive(named("later", "nightly-28934600-b7zzz"))) == [], (
        "what was learned is forgotten"
    )


def test_who_waits_comes_in_when_enough_was_learned() -> None:
    story = Story()
    story.nodes(node("a", 1), node("b", 1), node("c", 1, labels={"pool": "c"}))
    story.queues(team(), LEARNS)
    runs(story, 10, 10, 10, 10)
    fifth = named("fifth", "nightly-28934590-x7k2v")
    story.run_on(fifth, "c", "c/0")
    story.run_on(running("old", shape(1), for_s=3600), "a", "a/0")
    story.gangs(gang("g", 3, queue="team"))
    story.arrive(*members("g", 3, shape(1)))
    assert holders(story) == ["g"]
    assert placed(story.arrive(named("next", "nightly-28934599-b7zzz"))) == []
    story.wait_s(10 * MINUTE_S)
    assert placed(story.depart("fifth")) == ["next"]


def test_another_template_before_it_keeps_nobody_out() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    said = story.arrive(named("first", "other-1-zzzzz"), named("next", "nightly-28934599-b7zzz"))
    assert placed(said) == ["next"]


def test_a_gang_comes_if_all_of_it_is_known() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    story.gangs(gang("pair", 1, queue="small"))
    member = msgspec.structs.replace(named("m", "nightly-28934599-b7zzz"), gang=gang("pair", 1).name)
    assert placed(story.arrive(member)) == ["m"]


def test_after_a_restart_who_came_since_is_a_guest_still() -> None:
    story = large_waits(10, 20, 30, 40, 48)
    visitor, old = named("next", "nightly-28934599-b7zzz"), running("old", shape(1), for_s=3600)
    story.arrive(visitor)
    again = Story()
    again.at_us = story.at_us
    again.nodes(node("a", 1), node("b", 1))
    again.queues(team(), LEARNS)
    again.gangs(gang("g", 2, queue="team"))
    again.happen(
        PodBound(old, NodeName("a"), (DeviceId("a/0"),), story.at_us - SECOND_US),
        PodBound(visitor, NodeName("b"), (DeviceId("b/0"),), story.at_us),
        *map(PodAdded, members("g", 2, shape(1))),
        ReservationsRecalled(story.engine.reservations()),
    )
    assert holders(again) == ["g"]
    assert evicted(again.depart("old")) == {"next": "g"}


def after_a_restart(*recalled: LearnedRuns) -> Story:
    """A new scheduler finds the large gang waiting, and what was learned."""
    again = Story()
    again.nodes(node("a", 1), node("b", 1))
    again.queues(team(), LEARNS)
    again.happen(RunTimesRecalled(recalled))
    again.run_on(running("old", shape(1), for_s=60 * MINUTE_S), "a", "a/0")
    again.gangs(gang("g", 2, queue="team"))
    again.arrive(*members("g", 2, shape(1)))
    assert holders(again) == ["g"]
    return again


@pytest.mark.parametrize("minutes", [(10, 20, 30, 40, 48), (10, 20, 30, 40, 49)])
def test_after_a_restart_the_next_run_is_judged_as_before_it(minutes: tuple[float, ...]) -> None:
    before = large_waits(*minutes)
    again = after_a_restart(*before.engine.learned_run_times())
    assert again.engine.learned_run_times() == before.engine.learned_run_times()
    visitor = named("next", "nightly-28934599-b7zzz")
    assert placed(again.arrive(visitor)) == placed(before.arrive(visitor))


def test_runs_before_and_after_a_restart_count_together() -> None:
    before = large_waits(10, 20, 30)
    again = Story()
    again.nodes(node("b", 1))
    again.queues(LEARNS)
    again.happen(RunTimesRecalled(before.engine.learned_run_times()))
    runs(again, 40, 48)
    (learned_since,) = again.engine.learned_run_times()
    assert learned_since.runs_us == tuple(length * 60 * SECOND_US for length in (10, 20, 30, 40, 48))


def test_what_is_recalled_of_a_queue_that_learns_no_more_is_forgotten() -> None:
    again = Story()
    again.queues(team())
    again.happen(RunTimesRecalled(large_waits(10, 20).engine.learned_run_times()))
    assert again.engine.learned_run_times() == ()


@pytest.mark.parametrize("length_us", [-1, LONGEST_US + 1])
def test_a_length_that_no_run_has_is_refused(length_us: int) -> None:
    again = Story()
    again.queues(LEARNS)
    said = again.happen(RunTimesRecalled((LearnedRuns(QueueName("small"), "0" * 32, (length_us,)),)))
    assert [one.subject for one in said if isinstance(one, Rejected)] == ["RunTimesRecalled"]
    assert again.engine.learned_run_times() == ()


# What is learned.


def learned(*minutes: float, ended_by_us: bool = False) -> int | None:
    """The bound, in minutes, after these runs."""
    one, found = named("p", "nightly-1"), LearnedRunTimes()
    found.update(LEARNS)
    for length in minutes:
        found.ended(QueueName("small"), one, int(length * 60 * SECOND_US), ended_by_us=ended_by_us)
    bound_us = found.bound_us(QueueName("small"), one)
    return None if bound_us is None else bound_us // SECOND_US


def test_the_bound_is_the_upper_quantile_and_a_quarter_more() -> None:
    assert learned(10, 20, 30, 40, 50) == 3750  # the longest of five, 50 minutes, and 12.5
    assert learned(*range(1, 21)) == 1425  # of twenty the second longest, 19 minutes, and 4.75


def test_only_the_last_runs_count() -> None:
    assert learned(600, *[10] * 20) == 750


def test_runs_that_were_told_to_end_count_only_if_they_overran() -> None:
    assert learned(10, 20, 30, 40, 50, ended_by_us=True) is None
    one, found, small = named("p", "nightly-1"), LearnedRunTimes(), QueueName("small")
    found.update(LEARNS)
    for _ in range(5):
        found.ended(small, one, 60 * SECOND_US, ended_by_us=False)
    found.ended(small, one, 30 * SECOND_US, ended_by_us=True)
    assert found.bound_us(small, one) == 75 * SECOND_US
    found.ended(small, one, 80 * SECOND_US, ended_by_us=True)
    assert found.bound_us(small, one) == 100 * SECOND_US


def test_what_is_remembered_is_bounded() -> None:
    found, small = LearnedRunTimes(), QueueName("small")
    found.update(LEARNS)
    for number in range(ALIKE_MAX + 10):
        found.ended(small, named("p", f"job{number}x"), SECOND_US, ended_by_us=False)
    assert len(found._runs) == ALIKE_MAX


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("ns/nightly-28934512-x7k2p", "ns/nightly"),  # of a CronJob's Job
        ("ns/web-5d9f8c7b4d-zxk2p", "ns/web"),  # of a Deployment's ReplicaSet
        ("ns/train-worker-0", "ns/train-worker"),
        ("ns/js-workers-0-3-bbx7k", "ns/js-workers"),  # of a JobSet
        ("ns/train-llama-70b", "ns/train-llama-70b"),
        ("ns/12345", "ns/12345"),
    ],
)
def test_names_lose_what_controllers_append(name: str, template: str) -> None:
    assert stem(name) == template
