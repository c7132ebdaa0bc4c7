"""Pods that must end unless something goes away: when they are told to, and what their owners read."""

from collections.abc import Iterable

import msgspec
import pytest

from gpufleet.engine.event import (
    DevicesOffered,
    Event,
    EvictionRefused,
    KubeletRejected,
    NodeDistrustRecalled,
    PodBound,
    PodRemoved,
    ViolationEnded,
    ViolationFound,
    VolumeRefused,
)
from gpufleet.engine.event_log import header_line, rerun, step_line
from gpufleet.engine.instruction import AnyInstruction, Consequence, Evict, RequeueAfter, ViolationReport
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.preempt.by_name import NO_EVICTIONS
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid
from gpufleet.model.violation import AnyViolation, DeviceConflict, GangIncomplete, GangMember, MemoryExceeded
from tests.engine.fleet_builder import Story, gang, node, pod, shape

S = 1_000_000
UID = PodUid("p")


def running(*uids: str) -> Story:
    """A node with these pods on it."""
    told = Story()
    told.nodes(node("n", 8))
    told.happen(*(PodBound(pod(uid, shape(1)), NodeName("n")) for uid in uids))
    return told


def at(story: Story, at_us: int, *events: Event) -> list[AnyInstruction]:
    """What the engine says of these events at a moment."""
    story.at_us = at_us
    return story.happen(*events)


def conflict(*, may_be_ended: bool = True) -> DeviceConflict:
    return DeviceConflict(UID, DeviceId("GPU-1"), ("default/other",), may_be_ended)


def exceeded(*, may_be_ended: bool = True, ends: bool = True) -> MemoryExceeded:
    return MemoryExceeded(UID, DeviceId("GPU-1"), 40_000, 45_000, may_be_ended, ends)


def evictions(said: Iterable[AnyInstruction]) -> list[tuple[str, str]]:
    """The pods that are told to end, each with the reason."""
    return [(one.uid, one.reason) for one in said if isinstance(one, Evict)]


def told(said: Iterable[AnyInstruction]) -> list[tuple[str, Consequence]]:
    """The pods whose owners read of a violation, and what follows."""
    return [(one.uid, one.consequence) for one in said if isinstance(one, ViolationReport)]


def due_us(said: Iterable[AnyInstruction]) -> int | None:
    """When the engine wants to be asked again."""
    return next((one.at_us for one in said if isinstance(one, RequeueAfter)), None)


def test_a_conflict_ends_the_pod_when_it_has_lasted_for_ten_seconds() -> None:
    story = running("p")
    said = at(story, 100 * S, ViolationFound(conflict()))
    assert (evictions(said), told(said), due_us(said)) == ([], [], 110 * S)
    said = at(story, 110 * S)
    assert evictions(said) == [("p", "device-conflict")]
    assert told(said) == [("p", Consequence.ENDS)]


def test_a_conflict_that_goes_away_in_time_ends_no_pod() -> None:
    story = running("p")
    at(story, 100 * S, ViolationFound(conflict()))
    at(story, 109 * S, ViolationEnded(conflict()))
    said = at(story, 200 * S)
    assert (evictions(said), told(said), due_us(said)) == ([], [], None)


def test_a_conflict_over_another_device_does_not_begin_anew() -> None:
    story = running("p")
    at(story, 100 * S, ViolationFound(conflict()))
    elsewhere = msgspec.structs.replace(conflict(), device=DeviceId("GPU-2"))
    at(story, 109 * S, ViolationFound(elsewhere))
    assert evictions(at(story, 110 * S)) == [("p", "device-conflict")]


def test_a_pod_that_no_controller_makes_anew_stays_and_its_owner_reads_why() -> None:
    story = running("p")
    at(story, 100 * S, ViolationFound(conflict(may_be_ended=False)))
    said = at(story, 110 * S)
    assert (evictions(said), told(said)) == ([], [("p", Consequence.STAYS)])
    assert told(at(story, 500 * S)) == []


def test_a_refused_eviction_is_asked_for_again_when_the_refusal_is_over() -> None:
    story = running("p")
    at(story, 100 * S, ViolationFound(conflict()))
    at(story, 110 * S)
    said = at(story, 111 * S, EvictionRefused(UID, 121 * S))
    assert (evictions(said), due_us(said)) == ([], 121 * S)
    said = at(story, 121 * S)
    assert evictions(said) == [("p", "device-conflict")]
    assert told(said) == [], "the owner has read of it"


def test_a_pod_that_is_told_to_end_is_not_told_again() -> None:
    story = running("p")
    at(story, 100 * S, ViolationFound(conflict()))
    at(story, 110 * S)
    assert evictions(at(story, 500 * S)) == []
    assert evictions(at(story, 501 * S, PodRemoved(UID), ViolationEnded(conflict()))) == []


def test_memory_is_warned_of_at_once_and_ends_the_pod_a_minute_later() -> None:
    story = running("p")
    said = at(story, 100 * S, ViolationFound(exceeded()))
    assert (evictions(said), told(said), due_us(said)) == ([], [("p", Consequence.ENDS_LATER)], 160 * S)
    said = at(story, 160 * S)
    assert (evictions(said), told(said)) == ([("p", "gpu-memory")], [("p", Consequence.ENDS)])


@pytest.mark.parametrize(
    ("violation", "consequence"),
    [
        (exceeded(ends=False), Consequence.NONE),
        (exceeded(may_be_ended=False), Consequence.STAYS),
        (exceeded(may_be_ended=False, ends=False), Consequence.NONE),
    ],
)
def test_where_no_pod_ends_for_memory_the_warning_is_told_again_every_ten_minutes(
    violation: MemoryExceeded, consequence: Consequence
) -> None:
    story = running("p")
    heard = [(at_s, told(at(story, at_s * S, *first(violation, at_s)))) for at_s in range(100, 1400, 100)]
    assert [at_s for at_s, said in heard if said] == [100, 700, 1300]
    assert {one for _, said in heard for one in said} == {("p", consequence)}


def first(violation: AnyViolation, at_s: int) -> list[ViolationFound]:
    return [ViolationFound(violation)] if at_s == 100 else []


GANG = GangName("train")


def half_bound(*, needs: int = 2, bare: tuple[str, ...] = ()) -> tuple[Story, GangIncomplete]:
    """A gang of two, of which one member runs."""
    story = Story()
    story.nodes(node("n", 1))
    story.happen(PodBound(pod("w0", shape(1), gang="train"), NodeName("n")))
    story.gangs(gang("train", needs))
    members = (GangMember(PodUid("w0"), "w0" not in bare),)
    return story, GangIncomplete(GANG, needs, 1, members, 300 * S)


def test_a_gang_in_part_is_taken_back_at_its_deadline() -> None:
    story, incomplete = half_bound()
    said = at(story, 100 * S, ViolationFound(incomplete))
    assert (evictions(said), due_us(said)) == ([], 400 * S)
    said = at(story, 400 * S)
    assert (evictions(said), told(said)) == ([("w0", "gang-incomplete")], [("w0", Consequence.ENDS)])


def test_a_member_that_is_bound_after_the_others_were_told_to_end_ends_with_its_reason_too() -> None:
    story, incomplete = half_bound(needs=3)
    at(story, 100 * S, ViolationFound(incomplete))
    assert told(at(story, 400 * S)) == [("w0", Consequence.ENDS)]
    both = (*incomplete.members, GangMember(PodUid("w1"), True))
    late = PodBound(pod("w1", shape(1), gang="train"), NodeName("n"))
    said = at(story, 401 * S, late, ViolationFound(msgspec.structs.replace(incomplete, members=both)))
    assert (evictions(said), told(said)) == ([("w1", "gang-incomplete")], [("w1", Consequence.ENDS)])


def test_since_when_a_gang_is_short_is_known_as_long_as_a_member_ends_for_it() -> None:
    story, incomplete = half_bound()
    at(story, 100 * S, ViolationFound(incomplete))
    assert evictions(at(story, 400 * S)) == [("w0", "gang-incomplete")]
    shortage = story.engine.gang_shortage(GANG)
    assert shortage is not None
    assert shortage.since_us == 100 * S
    story.depart("w0")
    assert story.engine.gang_shortage(GANG) is None


def test_what_was_so_before_a_restart_does_not_begin_anew() -> None:
    story, incomplete = half_bound()
    said = at(story, 390 * S, ViolationFound(incomplete, since_us=100 * S))
    assert (evictions(said), due_us(said)) == ([], 400 * S)
    assert evictions(at(story, 400 * S)) == [("w0", "gang-incomplete")]


def test_a_time_that_is_not_yet_counts_as_now() -> None:
    story, incomplete = half_bound()
    assert due_us(at(story, 100 * S, ViolationFound(incomplete, since_us=10**16))) == 400 * S


def test_a_gang_with_its_last_member_on_the_way_is_left_alone_unless_that_fails() -> None:
    story, incomplete = half_bound()
    at(story, 100 * S, ViolationFound(incomplete))
    story.nodes(node("m", 1))
    story.arrive(pod("w1", shape(1), gang="train"))
    said = at(story, 400 * S)
    assert evictions(said) == []
    said = at(story, 401 * S, PodRemoved(PodUid("w1")))
    assert evictions(said) == [("w0", "gang-incomplete")]


def test_a_gang_with_a_member_on_a_node_that_goes_away_ends_at_once_although_all_have_places() -> None:
    story, _ = half_bound()
    story.nodes(node("m", 1))
    story.happen(PodBound(pod("w1", shape(1), gang="train"), NodeName("m")))
    members = (GangMember(PodUid("w0"), True), GangMember(PodUid("w1"), True))
    said = at(story, 100 * S, ViolationFound(GangIncomplete(GANG, 2, 1, members, 0, NodeName("m"))))
    assert evictions(said) == [("w0", "gang-incomplete"), ("w1", "gang-incomplete")]


def test_a_gang_in_part_does_not_wait_for_its_deadline_when_a_node_of_it_goes_away() -> None:
    story, incomplete = half_bound()
    assert due_us(at(story, 100 * S, ViolationFound(incomplete))) == 400 * S
    goes = msgspec.structs.replace(incomplete, bound=0, allowed_us=0, node=NodeName("n"))
    assert evictions(at(story, 150 * S, ViolationFound(goes))) == [("w0", "gang-incomplete")]


def test_a_bare_member_of_a_gang_stays_and_later_ones_wait_for_all_that_is_lacking() -> None:
    story, incomplete = half_bound(needs=3, bare=("w0",))
    at(story, 100 * S, ViolationFound(incomplete))
    said = at(story, 400 * S)
    assert (evictions(said), told(said)) == ([], [("w0", Consequence.STAYS)])


def test_a_log_with_every_kind_of_such_events_runs_again_to_the_same_bytes() -> None:
    story, incomplete = half_bound()
    name, uid = NodeName("n"), PodUid("w0")
    first = (
        NodeDistrustRecalled(name, 5 * S, 120 * S),
        *(KubeletRejected(name, uid, "OutOfcpu") for _ in range(3)),
        DevicesOffered(name, "monday"),
        ViolationFound(incomplete, since_us=S),
        ViolationFound(msgspec.structs.replace(exceeded(), pod=uid)),
        ViolationFound(msgspec.structs.replace(conflict(), pod=uid)),
        VolumeRefused(PodUid("w1"), "default/data", name),
    )
    steps = [(at_s * S, first if at_s == 10 else ()) for at_s in (10, 20, 400)]
    steps.append((401 * S, (ViolationEnded(incomplete), EvictionRefused(uid, 500 * S))))
    engine = Engine(POLICIES["best-fit"])
    lines = [header_line("1", "best-fit", 0, NO_EVICTIONS)]
    for at_us, events in [*story.told, *steps]:
        lines.append(step_line(at_us, events, engine.step(at_us, events)))
    for _, before, again in rerun(lines):
        assert before == again
