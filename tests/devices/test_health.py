"""A card leaves service on evidence against it and comes back on evidence for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.devices.health import (
    FLAPS_FORGOTTEN_S,
    QUIET_FIRST_S,
    QUIET_MOST_S,
    Evidence,
    Health,
    HistoryLost,
    Missing,
    NoAnswer,
    Reading,
    Recovery,
    Verdict,
    XidSeen,
    step,
)
from gpufleet.devices.xid import XidAction, xid

WELL = Reading(Recovery.NONE)


class Card:
    """A card on a clock of its own."""

    def __init__(self) -> None:
        self.health = Health()
        self.now_s = 1000.0

    def sees(self, *evidence: Evidence) -> "Card":
        """Take evidence in at this moment."""
        for one in evidence:
            self.health = step(self.health, one, self.now_s)
        return self

    def after(self, seconds: float) -> "Card":
        """Let time pass."""
        self.now_s += seconds
        return self

    @property
    def verdict(self) -> Verdict:
        """Of this moment."""
        return self.health.verdict


def test_a_new_card_is_healthy() -> None:
    assert Card().sees(WELL).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("code", [13, 31, 43, 94, 63])
def test_an_error_of_a_program_does_not_concern_the_card(code: int) -> None:
    assert Card().sees(WELL, XidSeen(code), WELL).health == Card().sees(WELL).health


def test_a_card_that_needs_a_reset_is_out_at_once_and_says_why() -> None:
    card = Card().sees(WELL, XidSeen(95))
    assert card.verdict is Verdict.UNHEALTHY
    assert card.health.reason == f"Xid 95: {xid(95).meaning}"


def test_it_comes_back_when_the_driver_asks_for_nothing_and_it_was_quiet() -> None:
    card = Card().sees(WELL, XidSeen(95), Reading(Recovery.RESET))
    assert "the driver asks: reset" in card.health.reason
    card.after(3600).sees(Reading(Recovery.RESET)).after(1).sees(WELL)
    assert card.verdict is Verdict.UNHEALTHY
    assert card.health.reason == "it recovered and has to be quiet for 30 s"
    assert card.after(QUIET_FIRST_S - 1).sees(WELL).verdict is Verdict.UNHEALTHY
    assert card.after(1).sees(WELL).verdict is Verdict.HEALTHY


def test_what_lasts_changes_nothing_while_it_does() -> None:
    card = Card().sees(Missing(), Reading(Recovery.RESET))
    before = card.health
    assert card.after(5).sees(Missing()).after(5).sees(Reading(Recovery.RESET)).health == before


def test_quiet_alone_brings_no_card_back_that_needs_a_reset() -> None:
    card = Card().sees(Reading(), XidSeen(95))
    assert card.after(10 * QUIET_MOST_S).sees(Reading()).verdict is Verdict.UNHEALTHY
    assert card.sees(Reading(resets=1)).verdict is Verdict.HEALTHY


def test_a_card_off_the_bus_comes_back_only_when_it_was_found_again() -> None:
    card = Card().sees(WELL, XidSeen(79), Missing())
    assert card.after(QUIET_MOST_S).sees(WELL).verdict is Verdict.UNHEALTHY
    assert card.sees(Reading(Recovery.NONE, resets=1)).verdict is Verdict.UNHEALTHY
    assert card.after(QUIET_FIRST_S).sees(Reading(Recovery.NONE, resets=1)).verdict is Verdict.HEALTHY


def test_a_card_of_which_nobody_remembers_anything_is_out_until_it_was_quiet() -> None:
    card = Card().sees(HistoryLost("the record is damaged"), WELL)
    assert (card.verdict, card.health.reason) == (Verdict.UNHEALTHY, "the record is damaged")
    assert card.after(QUIET_FIRST_S).sees(WELL).verdict is Verdict.HEALTHY


def test_a_code_that_nobody_explains_takes_it_out_until_it_was_quiet() -> None:
    card = Card().sees(WELL, XidSeen(9999))
    assert card.verdict is Verdict.UNHEALTHY
    assert card.after(QUIET_FIRST_S - 1).sees(WELL).verdict is Verdict.UNHEALTHY
    assert card.after(1).sees(WELL).verdict is Verdict.HEALTHY


def test_no_answer_is_neither_healthy_nor_sick() -> None:
    card = Card().sees(WELL, NoAnswer("no answer for 5 s"))
    assert card.verdict is Verdict.UNKNOWN
    assert card.health.reason == "no answer for 5 s"
    assert card.sees(WELL).verdict is Verdict.HEALTHY


def test_no_answer_does_not_excuse_a_sick_card() -> None:
    assert Card().sees(XidSeen(95), NoAnswer("no answer")).verdict is Verdict.UNHEALTHY


def test_readings_that_the_card_does_not_have_prove_nothing() -> None:
    assert Card().sees(Reading()).verdict is Verdict.HEALTHY


def test_memory_that_could_not_be_remapped_takes_it_out() -> None:
    card = Card().sees(Reading(Recovery.NONE, remap_failed=True))
    assert card.verdict is Verdict.UNHEALTHY
    assert (
        card.after(QUIET_MOST_S).sees(Reading(Recovery.NONE, remap_failed=True)).verdict is Verdict.UNHEALTHY
    )


def test_each_return_takes_twice_as_long() -> None:
    card = Card().sees(WELL)
    for number in range(5):
        card.after(1).sees(XidSeen(95))
        assert card.health.quiet_s == QUIET_FIRST_S * 2**number
        assert card.after(card.health.quiet_s - 1).sees(WELL).verdict is Verdict.UNHEALTHY
        assert card.after(1).sees(WELL).verdict is Verdict.HEALTHY


def test_flaps_of_long_ago_are_forgotten() -> None:
    card = Card().sees(XidSeen(95)).after(QUIET_FIRST_S).sees(WELL)
    card.after(FLAPS_FORGOTTEN_S).sees(XidSeen(95))
    assert card.health.quiet_s == QUIET_FIRST_S


EVIDENCE = st.one_of(
    st.sampled_from([13, 48, 63, 79, 94, 95, 9999]).map(XidSeen),
    st.builds(
        Reading,
        recovery=st.sampled_from([None, *Recovery]),
        remap_failed=st.sampled_from([None, False, True]),
        resets=st.integers(0, 3),
    ),
    st.just(NoAnswer("hangs")),
    st.just(Missing()),
    st.just(HistoryLost("the record is damaged")),
)


@given(st.lists(st.tuples(EVIDENCE, st.floats(0, 100)), max_size=60))
def test_it_never_comes_back_without_having_been_quiet(story: list[tuple[Evidence, float]]) -> None:
    card = Card()
    last_bad_s = None
    for evidence, pause_s in story:
        before = card.verdict
        card.after(pause_s).sees(evidence)
        bad = isinstance(evidence, Missing | HistoryLost) or (
            isinstance(evidence, XidSeen)
            and xid(evidence.code).action not in (XidAction.NOTHING, XidAction.POD)
        )
        if bad:
            last_bad_s = card.now_s
            assert card.verdict is Verdict.UNHEALTHY
        if before is Verdict.UNHEALTHY and card.verdict is not Verdict.UNHEALTHY:
            assert isinstance(evidence, Reading)
            assert last_bad_s is None or card.now_s - last_bad_s >= QUIET_FIRST_S
        assert bool(card.health.reason) == (card.verdict is not Verdict.HEALTHY)


@given(st.lists(st.tuples(EVIDENCE, st.floats(0, 5)), min_size=20, max_size=200))
def test_a_card_that_flaps_is_damped(story: list[tuple[Evidence, float]]) -> None:
    card = Card()
    returns = 0
    for evidence, pause_s in story:
        before = card.verdict
        card.after(pause_s).sees(evidence)
        returns += before is Verdict.UNHEALTHY and card.verdict is not Verdict.UNHEALTHY
    # 30 s, then 60, then 120: more than so many do not fit into the time of the story
    passed_s = card.now_s - 1000.0
    assert QUIET_FIRST_S * (2**returns - 1) <= passed_s
