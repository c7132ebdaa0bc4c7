"""A node that turns pods away is left alone for a while, longer each time, and trusted again."""

import pytest

from gpufleet.engine.lifecycle.node_trust import (
    OFFERS_MAX,
    PAUSE_MOST_US,
    SETTLING_US,
    WINDOW_US,
    NodeTrust,
)
from gpufleet.model.identifiers import NodeName

NODE = NodeName("gpu-1")
S = 1_000_000


def test_two_rejections_do_not_cost_a_node_its_trust() -> None:
    trust = NodeTrust()
    assert not trust.reject(NODE, 0)
    assert not trust.reject(NODE, 1 * S)
    assert not trust.is_distrusted(NODE, 1 * S)


def test_the_third_rejection_within_ten_minutes_does_for_one_minute() -> None:
    trust = NodeTrust()
    trust.reject(NODE, 0)
    trust.reject(NODE, 100 * S)
    assert trust.reject(NODE, 599 * S)
    assert trust.is_distrusted(NODE, 658_900_000)
    assert not trust.is_distrusted(NODE, 659 * S)
    assert trust.next_regained_us() == 659 * S


def test_rejections_far_apart_do_not_add_up() -> None:
    trust = NodeTrust()
    assert not any(trust.reject(NODE, moment_us) for moment_us in (0, 400 * S, 800 * S, 1200 * S))


def test_who_rejects_again_is_left_alone_for_twice_as_long() -> None:
    trust = NodeTrust()
    for moment_us in (0, 1 * S, 2 * S):
        trust.reject(NODE, moment_us)
    assert trust.regained(62 * S) == [NODE]
    for moment_us in (63 * S, 64 * S, 65 * S):
        trust.reject(NODE, moment_us)
    assert trust.next_regained_us() == (65 + 120) * S


def test_trust_regained_is_told_once() -> None:
    trust = NodeTrust()
    for moment_us in (0, 1 * S, 2 * S):
        trust.reject(NODE, moment_us)
    assert trust.regained(61_900_000) == []
    assert trust.regained(62 * S) == [NODE]
    assert trust.regained(62 * S) == []
    assert trust.next_regained_us() is None


def test_a_node_that_left_is_forgotten() -> None:
    trust = NodeTrust()
    for moment_us in (0, 1 * S, 2 * S):
        trust.reject(NODE, moment_us)
    trust.forget(NODE)
    assert not trust.is_distrusted(NODE, 3 * S)


def distrusted_at(moment_us: int, since: str = "first") -> NodeTrust:
    """A node whose devices the kubelet knows since ``since``, and which then rejected three pods."""
    trust = NodeTrust()
    trust.offered(NODE, since, 0)
    for _ in range(3):
        trust.reject(NODE, moment_us)
    assert trust.is_distrusted(NODE, moment_us)
    return trust


def test_a_node_whose_devices_are_made_known_anew_is_trusted_at_once() -> None:
    trust = distrusted_at(100 * S)
    assert trust.offered(NODE, "second", 104 * S)
    assert not trust.is_distrusted(NODE, 104 * S)
    assert trust.next_regained_us() is None
    assert not trust.reject(NODE, 110 * S), "those of before do not count any more"


@pytest.mark.parametrize("since", ["first", ""])
def test_a_report_that_says_nothing_new_of_that_forgives_nothing(since: str) -> None:
    trust = distrusted_at(100 * S)
    assert not trust.offered(NODE, since, 104 * S)
    assert trust.is_distrusted(NODE, 104 * S)


def test_devices_that_were_never_known_before_are_news_too() -> None:
    assert distrusted_at(100 * S, since="").offered(NODE, "first", 104 * S)


def test_a_rejection_that_is_heard_of_a_little_late_is_of_the_time_before() -> None:
    trust = NodeTrust()
    trust.offered(NODE, "first", 0)
    trust.offered(NODE, "second", 104 * S)
    assert not any(trust.reject(NODE, 104_100_000) for _ in range(10))
    assert [trust.reject(NODE, 104 * S + SETTLING_US) for _ in range(3)] == [False, False, True]


def test_an_agent_that_flaps_is_no_excuse() -> None:
    trust = NodeTrust()
    trust.offered(NODE, "0", 0)
    moments = [100 * S + 20 * S * number for number in range(OFFERS_MAX + 1)]
    forgiven = []
    for moment_us in moments:
        for _ in range(3):
            trust.reject(NODE, moment_us)
        forgiven.append(trust.offered(NODE, f"at {moment_us}", moment_us + 5 * S))
    assert forgiven == [True] * OFFERS_MAX + [False]
    assert trust.is_distrusted(NODE, moments[-1] + 60 * S)
    until_us = moments[-1] + 60 * S * 2**OFFERS_MAX
    assert trust.next_regained_us() == until_us, "each pause is twice as long, forgiven or not"
    trust.regained(until_us)
    for _ in range(3):
        trust.reject(NODE, until_us + WINDOW_US)
    assert trust.offered(NODE, "much later", until_us + WINDOW_US + 5 * S)


def test_resources_that_are_made_known_one_after_the_other_are_one_event() -> None:
    trust = NodeTrust()
    trust.offered(NODE, "0", 0)
    for number in range(3 * OFFERS_MAX):
        trust.offered(NODE, f"resource {number}", 100 * S + 500_000 * number)
    for _ in range(3):
        trust.reject(NODE, 200 * S)
    assert trust.offered(NODE, "again", 210 * S)


def test_what_was_written_down_before_a_restart_holds_on() -> None:
    trust = NodeTrust()
    trust.recall(NODE, 100 * S, 240 * S, 40 * S)
    assert trust.is_distrusted(NODE, 99 * S)
    assert trust.regained(100 * S) == [NODE]
    for moment_us in (101 * S, 102 * S, 103 * S):
        trust.reject(NODE, moment_us)
    assert trust.next_regained_us() == (103 + 240) * S


def test_nothing_that_is_recalled_keeps_a_node_for_longer_than_the_longest_pause() -> None:
    trust = NodeTrust()
    trust.recall(NODE, 10**18, 10**18, 40 * S)
    assert trust.until_us(NODE) == 40 * S + PAUSE_MOST_US
    assert trust.next_pause_us(NODE) == PAUSE_MOST_US


def test_a_pause_ends_on_a_whole_second_as_it_is_written_down() -> None:
    trust = NodeTrust()
    for _ in range(3):
        trust.reject(NODE, 1_500_000)
    assert trust.next_regained_us() == 62 * S
