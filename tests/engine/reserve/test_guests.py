"""Work that may be interrupted runs on reserved nodes until the holder can start."""

import msgspec
import pytest

from gpufleet.engine.event import (
    DisruptionBudgetSet,
    EvictionRefused,
    NodeSet,
    NominationsRecalled,
    PodAdded,
    PodBound,
    PodRemoved,
    QueueSet,
    ReservationsRecalled,
)
from gpufleet.engine.instruction import AnyInstruction, Evict
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.preempt.victims import NoVictims
from gpufleet.engine.scheduler import Engine
from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, placed, pod, shape
from tests.engine.ledger import Ledger
from tests.engine.queueing.queue_builder import queue, quota
from tests.engine.reserve.holders import guest, holders, running, team


def evicted(said: list[AnyInstruction]) -> list[tuple[str, str | None, str]]:
    """Who is evicted, for whom, and why."""
    return [(one.uid, one.beneficiary, one.reason) for one in said if isinstance(one, Evict)]


def interrupted(said: list[AnyInstruction]) -> list[str]:
    """Who ends because a holder can start."""
    return sorted(uid for uid, _, why in evicted(said) if why == "interrupted")


def gang_that_waits(story: Story | None = None) -> Story:
    """Two nodes of one GPU; on one of them runs work that ends some time, and a gang wants both."""
    story = story or Story()
    story.nodes(node("a", 1), node("b", 1))
    story.queues(team(), team("other"))
    story.run_on(pod("old", shape(1), queue="team"), "a", "a/0")
    story.gangs(gang("g", 2, queue="team"))
    story.arrive(*members("g", 2, shape(1)))
    assert holders(story) == ["g"]
    return story


def node_that_is_left(gpus: int, *, old: int, large: int) -> Story:
    """A node on which old work runs, and larger work waits for it to end."""
    story = Story()
    story.nodes(node("a", gpus))
    story.queues(team())
    story.run_on(pod("old", shape(old), queue="team"), "a", *(f"a/{number}" for number in range(old)))
    story.arrive(pod("large", shape(large), queue="team"))
    assert holders(story) == ["large"]
    return story


def test_a_guest_runs_on_what_is_reserved_though_nobody_knows_its_end() -> None:
    story = gang_that_waits()
    assert placed(story.arrive(guest("visitor", shape(1)))) == ["visitor"]
    assert holders(story) == ["g"]


def test_it_is_evicted_when_all_else_that_the_holder_waits_for_has_gone() -> None:
    story = gang_that_waits()
    story.arrive(guest("visitor", shape(1)))
    said = story.depart("old")
    assert evicted(said) == [("visitor", "g", "interrupted")]
    assert placed(said) == []
    assert placed(story.depart("visitor")) == ["g-0", "g-1"]


def test_it_ends_beside_who_was_told_to_end_and_not_after_them() -> None:
    story = gang_that_waits()
    story.arrive(guest("visitor", shape(1)))
    leaving = msgspec.structs.replace(pod("old", shape(1), queue="team"), leaving=True)
    assert evicted(story.happen(PodAdded(leaving))) == [("visitor", "g", "interrupted")]
    assert placed(story.depart("visitor")) == []
    assert placed(story.depart("old")) == ["g-0", "g-1"]


def test_it_stays_for_as_long_as_the_holder_cannot_start_anyway() -> None:
    story = gang_that_waits()
    story.arrive(guest("visitor", shape(1)))
    assert evicted(story.wait_s(100_000)) == []


def test_the_expected_start_is_what_it_would_be_without_guests() -> None:
    story = node_that_is_left(3, old=1, large=3)
    story.happen(PodAdded(running("old", shape(1), for_s=60)))
    story.arrive(
        guest("visitor", shape(1)), msgspec.structs.replace(guest("q", shape(1)), run_time_us=1 << 40)
    )
    (held,) = story.engine.reservations()
    assert held.start_us == 60 * SECOND_US
    assert set(story.binds) == {"visitor", "q"}


def test_a_guest_of_another_queue_goes_too() -> None:
    story = gang_that_waits()
    story.arrive(guest("visitor", shape(1), queue="other"))
    assert evicted(story.depart("old")) == [("visitor", "g", "interrupted")]


def test_a_guest_goes_whose_quota_the_holder_needs_wherever_it_runs() -> None:
    story = Story()
    story.nodes(node("a", 1, model="T4"), node("b", 2))
    story.queues(
        queue("root", quota("gpu", 2000)),
        queue("team", parent="root", priority=1, reserve_after_s=0),
        queue("other", parent="root"),
    )
    story.run_on(pod("old", shape(1), queue="team"), "b", "b/0")
    story.arrive(pod("large", shape(2, models=("A100",)), queue="team"))
    assert placed(story.arrive(guest("visitor", shape(1, models=("T4",)), queue="other"))) == ["visitor"]
    assert interrupted(story.depart("old")) == ["visitor"]
    assert placed(story.depart("visitor")) == ["large"]


def test_those_who_came_first_stay_where_the_others_end_is_enough() -> None:
    story = node_that_is_left(4, old=2, large=3)
    story.arrive(guest("first", shape(1)))
    story.arrive(guest("second", shape(1)))
    assert interrupted(story.depart("old")) == ["second"]


def test_who_ran_before_the_reservation_was_made_is_no_guest() -> None:
    story = Story()
    story.nodes(node("a", 2))
    story.queues(team())
    story.run_on(guest("before", shape(1)), "a", "a/0")
    story.run_on(pod("old", shape(1), queue="team"), "a", "a/1")
    story.wait_s(1)
    story.arrive(pod("large", shape(2), queue="team"))
    assert evicted(story.depart("old")) == []
    assert placed(story.depart("before")) == ["large"]


@pytest.mark.parametrize("later_us", [0, SECOND_US])
def test_who_turns_out_to_run_on_what_is_reserved_is_no_guest(later_us: int) -> None:
    """The reservation is made anew then, be it at the very moment at which it was made first."""
    ledger = Ledger(Engine(POLICIES["best-fit"], seed=0))
    first, large, late = (guest(name, shape(1)) for name in ("first", "large", "late"))
    ledger.step(0, QueueSet(team()), NodeSet(node("a", 1)), *map(PodAdded, (first, large, late)))
    ledger.step(later_us, PodBound(late, NodeName("a"), (DeviceId("a/0"),)))
    assert evicted(ledger.step(later_us, PodRemoved(first.uid))) == []
    (held,) = ledger.engine.reservations()
    assert (held.holder, held.waits_for, held.since_us) == ("large", ("late",), later_us)
    assert placed(ledger.step(later_us, PodRemoved(late.uid))) == ["large"]


def visitors() -> list[Pod]:
    """A gang of two that may be interrupted."""
    return [msgspec.structs.replace(one, interruptible=True) for one in members("visitors", 2, shape(1))]


def test_a_gang_of_guests_comes_and_goes_as_a_whole() -> None:
    story = node_that_is_left(5, old=2, large=4)
    story.gangs(gang("visitors", 2, queue="team"))
    story.arrive(*visitors())
    story.arrive(guest("single", shape(1)))
    assert {"visitors-0", "visitors-1", "single"} <= set(story.binds)
    assert interrupted(story.depart("old")) == ["visitors-0", "visitors-1"]
    assert placed(story.depart("visitors-0", "visitors-1")) == ["large"]


def test_a_gang_of_which_one_may_not_be_interrupted_stays_off() -> None:
    story = node_that_is_left(4, old=2, large=3)
    story.gangs(gang("visitors", 2, queue="team"))
    first, second = members("visitors", 2, shape(1))
    assert placed(story.arrive(msgspec.structs.replace(first, interruptible=True), second)) == []


def test_who_is_not_preemptible_is_not_let_in() -> None:
    one = msgspec.structs.replace(guest("p", shape(1)), preemptible=False)
    assert placed(gang_that_waits().arrive(one)) == []


@pytest.mark.parametrize(("allowed", "let_in"), [(0, []), (1, ["p"]), (2, ["p", "q"])])
def test_no_more_are_let_in_than_disruption_budgets_let_go(allowed: int, let_in: list[str]) -> None:
    story = node_that_is_left(4, old=1, large=4)
    story.happen(DisruptionBudgetSet(DisruptionBudget("b", "", LabelSelector(), allowed)))
    for name in "pq":
        story.arrive(guest(name, shape(1)))
    assert sorted(story.binds) == let_in


def test_nobody_is_let_in_before_a_holder_for_whom_nobody_is_evicted() -> None:
    story = Story()
    story.nodes(node("a", 2))
    story.queues(team())
    story.run_on(pod("old", shape(1), queue="team"), "a", "a/0")
    story.arrive(msgspec.structs.replace(pod("large", shape(2), queue="team"), preempts=False))
    assert holders(story) == ["large"]
    assert placed(story.arrive(guest("visitor", shape(1)))) == []


def test_nobody_is_let_in_where_nobody_is_ever_evicted() -> None:
    story = gang_that_waits(Story(victims=NoVictims()))
    assert placed(story.arrive(guest("visitor", shape(1)))) == []


def test_a_guest_whose_eviction_is_refused_goes_when_it_may_be_asked_again() -> None:
    story = gang_that_waits()
    story.arrive(guest("visitor", shape(1)))
    story.depart("old")
    said = story.happen(EvictionRefused(PodUid("visitor"), story.at_us + 10 * SECOND_US))
    assert (evicted(said), holders(story)) == ([], ["g"])
    assert interrupted(story.wait_s(10)) == ["visitor"]


@pytest.mark.parametrize("was_written", [False, True])
def test_a_scheduler_that_takes_over_knows_its_guests(was_written: bool) -> None:
    before = gang_that_waits()
    before.wait_s(1)
    told = before.engine.reservations()
    visitor, old = guest("visitor", shape(1)), pod("old", shape(1), queue="team")
    before.arrive(visitor)
    if was_written:
        told = before.engine.reservations()
    again = Story()
    again.nodes(node("a", 1), node("b", 1))
    again.queues(team())
    again.gangs(gang("g", 2, queue="team"))
    again.happen(
        PodBound(old, NodeName("a"), (DeviceId("a/0"),), -SECOND_US),
        PodBound(visitor, NodeName("b"), (DeviceId("b/0"),), SECOND_US),
        *(PodAdded(one) for one in members("g", 2, shape(1))),
        ReservationsRecalled(told),
    )
    assert again.engine.reservations() == before.engine.reservations()
    assert interrupted(again.depart("old")) == ["visitor"]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_guest_that_was_to_end_is_told_again_by_a_scheduler_that_takes_over(leaves: bool) -> None:
    """Only a guest that does not leave yet is told: the earlier scheduler may have stopped before that."""
    before = gang_that_waits()
    before.wait_s(1)
    before.arrive(guest("visitor", shape(1)))
    assert interrupted(before.depart("old")) == ["visitor"]
    promising = msgspec.structs.replace(
        guest("visitor", shape(1)), promises=(BackfillPromise("g"),), leaving=leaves
    )
    again = Story()
    again.nodes(node("a", 1), node("b", 1))
    again.queues(team())
    again.gangs(gang("g", 2, queue="team"))
    said = again.happen(
        PodBound(promising, NodeName("b"), (DeviceId("b/0"),), SECOND_US),
        *(PodAdded(one) for one in members("g", 2, shape(1))),
        NominationsRecalled(before.engine.kept_places()),
    )
    assert evicted(said) == ([] if leaves else [("visitor", "g", "interrupted")])
    assert sorted(placed(again.depart("visitor"))) == ["g-0", "g-1"]
