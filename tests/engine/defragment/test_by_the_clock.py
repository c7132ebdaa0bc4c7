"""Room is put together by the clock: in its window, within its budget, and never in circles."""

import pytest

from gpufleet.engine.instruction import Evict
from gpufleet.model.defragmentation import DAY_US, DayWindow, DefragmentationRules
from tests.engine.defragment.moving_fleet import anew, confirm, fleet, moved, runs
from tests.engine.fleet_builder import SECOND_US, Story, placed, pod, shape, share

HOUR_US = 3600 * SECOND_US
HOURLY = DefragmentationRules(every_us=HOUR_US)


def scattered(rules: DefragmentationRules = HOURLY) -> Story:
    """Two nodes of four GPUs with two single pods each."""
    told = fleet(4, 4, rules=rules)
    for number in range(4):
        runs(told, pod(f"p{number}", shape(1)), number // 2, number % 2)
    return told


def test_a_node_is_emptied_when_the_time_has_come() -> None:
    told = scattered()
    assert moved(told.wait_s(3599)) == {}
    said = told.wait_s(1)
    assert len(moved(said)) == 2
    assert {whom for whom, _ in moved(said).values()} == {None}
    replacements = [anew(told, uid) for uid in moved(said)]
    told.depart(*moved(said))
    told.arrive(pod("four", shape(4)))
    assert "four" in told.binds, "the node that was left is anybody's"
    assert placed(told.arrive(*replacements)) == [one.uid for one in replacements]


def test_what_lies_together_is_not_moved_again() -> None:
    told = scattered()
    said = told.wait_s(3600)
    replacements = [anew(told, uid) for uid in moved(said)]
    confirm(told, told.depart(*moved(said)))
    confirm(told, told.arrive(*replacements))
    for _ in range(5):
        assert moved(told.wait_s(3600)) == {}


def test_a_run_moves_no_more_than_its_budget() -> None:
    told = scattered(DefragmentationRules(every_us=HOUR_US, moves_a_run=1))
    assert moved(told.wait_s(3600)) == {}, "one move alone gains nothing"
    told = scattered(DefragmentationRules(every_us=HOUR_US, lost_a_day=1))
    assert moved(told.wait_s(3600)) == {}


def test_moves_are_made_only_in_the_window() -> None:
    window = DayWindow(2 * HOUR_US, 3 * HOUR_US)
    told = scattered(DefragmentationRules(every_us=HOUR_US, window=window))
    assert moved(told.wait_s(2 * 3600 - 1)) == {}
    assert moved(told.wait_s(1))


@pytest.mark.parametrize(
    ("from_us", "until_us", "at_us", "next_us"),
    [
        (2 * HOUR_US, 3 * HOUR_US, HOUR_US, 2 * HOUR_US),
        (2 * HOUR_US, 3 * HOUR_US, 2 * HOUR_US, 2 * HOUR_US),
        (2 * HOUR_US, 3 * HOUR_US, 3 * HOUR_US, DAY_US + 2 * HOUR_US),
        (22 * HOUR_US, 2 * HOUR_US, DAY_US + HOUR_US, DAY_US + HOUR_US),
        (22 * HOUR_US, 2 * HOUR_US, 2 * HOUR_US, 22 * HOUR_US),
        (HOUR_US, HOUR_US, 5 * HOUR_US, 5 * HOUR_US),
    ],
)
def test_a_window_of_the_day(from_us: int, until_us: int, at_us: int, next_us: int) -> None:
    assert DayWindow(from_us, until_us).next_us(at_us) == next_us


def test_a_move_whose_place_another_move_leaves_is_not_made_yet() -> None:
    """Each GPU is half used: the place of a moved share must be free now, not only when another has gone."""
    told = fleet(2, 2, rules=HOURLY)
    for number in range(4):
        runs(told, pod(f"s{number}", share(500)), number // 2, number % 2)
    said = told.wait_s(3600)
    free = {(f"n{number // 2}", f"n{number // 2}/{number % 2}"): 500 for number in range(4)}
    state = told.engine.state
    for one in said:
        if isinstance(one, Evict):
            row = state.pods.row_by_uid[f"{one.uid}/moved"]  # type: ignore[index]
            assert one.moved is not None
            for held in state.pods.device_ids(row):
                free[one.moved.node, str(held)] -= 500
    assert min(free.values()) == 0
