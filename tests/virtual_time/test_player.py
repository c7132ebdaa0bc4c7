"""The player of virtual time: what follows at a moment, and what time goes to next.

The engine is a script here: it answers step by step, and writes down what it was told when.
"""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.event import DecisionsDeferred, Event, GangRemoved, PodRemoved
from gpufleet.engine.instruction import (
    AnyInstruction,
    Bind,
    Evict,
    GangUnknown,
    Learn,
    Nominated,
    RequeueAfter,
    WhyEvicted,
)
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.virtual_time.player import ROUNDS_MAX, Player

NODE = NodeName("n")
VALUATION = GangRemoved(GangName("stands for a valuation"))
A, B, C = PodUid("a"), PodUid("b"), PodUid("c")


def removed(uid: str) -> Event:
    return PodRemoved(PodUid(uid))


def evict(uid: PodUid) -> Evict:
    return Evict(uid, None, WhyEvicted.STOPPED)


class Script:
    """An engine that gives these answers in turn, then none."""

    def __init__(self, *answers: list[AnyInstruction], for_ever: bool = False) -> None:
        self.answers = list(answers)
        self.for_ever = for_ever
        self.learns_from: list[Event] | None = None
        self.steps: list[tuple[int, list[Event]]] = []

    def step(self, at_us: int, events: Sequence[Event], /) -> list[AnyInstruction]:
        """The next answer."""
        self.steps.append((at_us, list(events)))
        if self.for_ever:
            return self.answers[0]
        return self.answers.pop(0) if self.answers else []

    def learns_first(self, events: Sequence[Event], /) -> bool:
        """From what this script is told to learn from."""
        return list(events) == self.learns_from

    def study(self) -> Event:
        """Always the one valuation."""
        return VALUATION


class RecordedSteps:
    """What comes of instructions is named after them; pods whose time has come are removed."""

    def __init__(self) -> None:
        self.said: list[AnyInstruction] = []

    def started(self, bind: Bind) -> Iterable[Event]:
        """One event."""
        return [removed(f"started {bind.uid}")]

    def evicted(self, evict: Evict) -> Iterable[Event]:
        """Two events: one pod goes and another comes."""
        return [removed(f"evicted {evict.uid}"), removed(f"again {evict.uid}")]

    def other_instruction(self, said: AnyInstruction) -> None:
        """Keep it."""
        self.said.append(said)

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """One event for each."""
        return [removed(uid) for uid in uids]


def player(engine: Script, at_us: int = 0) -> Player:
    return Player(engine, RecordedSteps(), at_us)


def test_what_follows_from_instructions_is_told_at_once_and_in_their_order() -> None:
    engine = Script([Bind(A, NODE), evict(B), Bind(C, NODE), Learn()])
    player(engine, 7).happen([removed("first")])
    following = ["started a", "evicted b", "again b", "started c"]
    assert engine.steps == [(7, [removed("first")]), (7, [*map(removed, following), VALUATION])]


def test_a_moment_lasts_until_nothing_follows() -> None:
    engine = Script([Bind(A, NODE)], [evict(A)], [Learn()], [])
    player(engine).happen([])
    assert [at_us for at_us, _ in engine.steps] == [0, 0, 0, 0]


def test_what_the_policy_learns_from_first_is_decided_once_it_has() -> None:
    engine = Script([Learn()], [Bind(A, NODE)])
    engine.learns_from = [removed("first"), removed("second")]
    player(engine).happen([removed("first"), removed("second")])
    deferred = [removed("first"), removed("second"), DecisionsDeferred()]
    assert engine.steps == [(0, deferred), (0, [VALUATION]), (0, [removed("started a")])]


def test_the_engine_is_asked_even_if_nothing_happened() -> None:
    engine = Script()
    player(engine).happen([])
    assert engine.steps == [(0, [])]


def test_what_has_no_consequence_is_passed_on() -> None:
    said: list[AnyInstruction] = [Nominated(A, NODE, (B,)), GangUnknown(GangName("g"), 1)]
    other_instruction = RecordedSteps()
    Player(Script([*said, Bind(B, NODE), RequeueAfter(9)]), other_instruction).happen([])
    assert other_instruction.said == said


def test_decisions_that_go_in_circles_are_an_error() -> None:
    engine = Script([Bind(A, NODE)], for_ever=True)
    with pytest.raises(BrokenInvariantError, match="come to no end"):
        player(engine).happen([])
    assert len(engine.steps) == ROUNDS_MAX


def test_time_goes_from_one_due_thing_to_the_next() -> None:
    engine = Script()
    play = player(engine)
    for due_us, uid in ((30, A), (10, B), (20, C)):
        play.later(due_us, uid)
    assert play.next_due_us() == 10
    while play.go_on():
        pass
    assert engine.steps == [(10, [removed(B)]), (20, [removed(C)]), (30, [removed(A)])]
    assert play.next_due_us() is None


def test_what_is_due_at_one_moment_goes_by_turn_then_by_uid() -> None:
    engine = Script()
    play = player(engine)
    play.later(10, A, turn=1)
    play.later(10, C)
    play.later(10, B)
    play.go_on()
    assert engine.steps == [(10, [removed(B), removed(C), removed(A)])]


def test_the_step_that_the_engine_asked_for_is_taken_once() -> None:
    engine = Script([RequeueAfter(50)])
    play = player(engine)
    play.happen([])
    assert play.go_on()
    assert not play.go_on()
    assert engine.steps == [(0, []), (50, [])]


def test_a_later_wish_of_the_engine_replaces_the_former() -> None:
    engine = Script([RequeueAfter(50)], [RequeueAfter(20)])
    play = player(engine)
    play.happen([])
    play.happen([])
    assert play.next_due_us() == 20


def test_an_end_before_the_step_that_was_asked_for_asks_the_engine_anew() -> None:
    engine = Script([RequeueAfter(50)], [])
    play = player(engine)
    play.later(30, A)
    play.happen([])
    assert play.go_on()
    assert not play.go_on()
    assert engine.steps == [(0, []), (30, [removed(A)])]


def test_what_becomes_due_at_its_own_moment_is_the_next_moment() -> None:
    """A pod that starts at 10 and runs for no time at all leaves in a step of its own."""

    class NoLength(RecordedSteps):
        def started(self, bind: Bind) -> Iterable[Event]:
            play.later(play.at_us, bind.uid)
            return []

    engine = Script([Bind(B, NODE)])
    play = Player(engine, NoLength())
    play.later(10, A)
    while play.go_on():
        pass
    assert engine.steps == [(10, [removed(A)]), (10, [removed(B)])]


def test_what_was_overdue_when_it_was_announced_is_due_now() -> None:
    engine = Script()
    play = player(engine, 100)
    play.later(40, A)
    play.go_on()
    assert engine.steps == [(100, [removed(A)])]


def test_waiting_plays_what_is_due_by_then_and_no_more() -> None:
    engine = Script()
    play = player(engine)
    for due_us, uid in ((10, A), (20, B), (21, C)):
        play.later(due_us, uid)
    play.wait_until(20)
    assert engine.steps == [(10, [removed(A)]), (20, [removed(B)])]
    assert (play.at_us, play.next_due_us()) == (20, 21)


def test_time_passes_where_nothing_is_due_and_never_goes_back() -> None:
    engine = Script()
    play = player(engine)
    play.wait_until(20)
    play.wait_until(5)
    assert (play.at_us, engine.steps) == (20, [])


@given(
    dues=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from("abcd")), max_size=12),
    wishes=st.lists(st.integers(0, 6), max_size=6),
)
def test_all_that_is_due_is_played_once_each_in_order_and_at_its_time(
    dues: list[tuple[int, int, str]], wishes: list[int]
) -> None:
    answers: list[list[AnyInstruction]] = [[RequeueAfter(due_us)] for due_us in wishes]
    engine = Script(*answers)
    play = player(engine)
    for due_us, turn, uid in dues:
        play.later(due_us, PodUid(uid), turn)
    while play.go_on():
        pass
    in_order = sorted(dues)
    assert [one for _, events in engine.steps for one in events] == [removed(uid) for *_, uid in in_order]
    assert [at_us for at_us, events in engine.steps for _ in events] == [due_us for due_us, *_ in in_order]
    assert [at_us for at_us, _ in engine.steps] == sorted(at_us for at_us, _ in engine.steps)
