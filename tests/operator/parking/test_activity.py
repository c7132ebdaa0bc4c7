"""What counts as idle, and what never does."""

import pytest

from gpufleet.operator.parking.activity import Activity, Sessions, Signal, judge
from tests.operator.parking.measured import (
    HOUR_US,
    MIB,
    MINUTE_US,
    NOW_US,
    UNKNOWN,
    measured,
    minute,
    minutes,
    quiet,
)

NO_SESSIONS = Sessions()


def test_an_hour_in_which_nothing_happens_is_idle_where_the_rule_asks_for_an_hour() -> None:
    found = judge([measured(*quiet(61))], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert (found.activity, found.quiet_since_us) == (Activity.IDLE, NOW_US - 61 * MINUTE_US)


def test_half_an_hour_is_not_enough_for_an_hour() -> None:
    steps = [*quiet(30), minute(GPU=0.9), *quiet(30)]
    found = judge([measured(*steps)], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert (found.activity, found.quiet_since_us) == (Activity.QUIET, NOW_US - 30 * MINUTE_US)


@pytest.mark.parametrize(
    ("signal", "value"),
    [
        ("GPU", 0.03),
        ("CPU", 0.8),  # a checkpoint is written, or the next data is prepared
        ("NETWORK", 5e7),  # a model is loaded from a store
        ("REQUESTS", 1.0),
    ],
)
def test_work_that_is_seen_by_one_signal_alone_is_work(signal: str, value: float) -> None:
    steps = [*quiet(60), minute(**{signal: value})]
    found = judge([measured(*steps)], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert found.activity is Activity.WORKING
    assert found.reason == f"pod-0: {Signal[signal].value}"


def test_memory_that_grows_is_a_model_that_loads() -> None:
    steps = [*quiet(60), minute(GPU_MEMORY=(4096 + 512) * MIB)]
    found = judge([measured(*steps)], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert (found.activity, found.reason) == (Activity.WORKING, "pod-0: GPU memory")


def test_memory_that_is_held_and_does_not_change_is_no_work_and_is_told() -> None:
    found = judge([measured(*quiet(61))], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert found.holds_memory


@pytest.mark.parametrize("missing", ["GPU", "GPU_MEMORY", "CPU", "NETWORK"])
def test_a_signal_that_nobody_measures_makes_nothing_idle(missing: str) -> None:
    steps = [minute(**{missing: None})] * 61
    found = judge([measured(*steps)], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert found.activity is Activity.UNKNOWN
    assert Signal[missing].value in found.reason


def test_requests_need_not_be_told_since_most_programs_serve_none() -> None:
    assert Signal.REQUESTS not in measured(*quiet(61)).values
    found = judge([measured(*quiet(61))], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert found.activity is Activity.IDLE


def test_two_lost_samples_are_bridged_and_three_are_unknown() -> None:
    for lost, activity in ((2, Activity.IDLE), (3, Activity.UNKNOWN)):
        steps = [*quiet(61 - lost), *[UNKNOWN] * lost]
        assert judge([measured(*steps)], NO_SESSIONS, minutes(61), HOUR_US, NOW_US).activity is activity


def test_a_quiet_time_begins_after_a_gap() -> None:
    steps = [*quiet(28), *[UNKNOWN] * 3, *quiet(30)]
    found = judge([measured(*steps)], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert (found.activity, found.quiet_since_us) == (Activity.QUIET, NOW_US - 30 * MINUTE_US)


def test_a_pod_is_not_idle_for_longer_than_it_runs() -> None:
    started_us = NOW_US - 20 * MINUTE_US
    found = judge([measured(*quiet(61), started_us=started_us)], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert (found.activity, found.quiet_since_us) == (Activity.QUIET, started_us)


def test_a_pod_that_has_just_started_works() -> None:
    pod = measured(*quiet(61), started_us=NOW_US - 10 * 10**6)
    assert judge([pod], NO_SESSIONS, minutes(61), HOUR_US, NOW_US).activity is Activity.WORKING


def test_work_without_a_pod_is_unknown() -> None:
    assert judge([], NO_SESSIONS, minutes(61), HOUR_US, NOW_US).activity is Activity.UNKNOWN


def test_one_rank_that_works_keeps_all_of_them() -> None:
    idle, busy = measured(*quiet(61)), measured(*quiet(60), minute(GPU=1.0), name="pod-1")
    found = judge([idle, busy], NO_SESSIONS, minutes(61), HOUR_US, NOW_US)
    assert (found.activity, found.reason) == (Activity.WORKING, "pod-1: GPU use")


def test_one_rank_that_is_not_measured_makes_all_of_them_unknown() -> None:
    pods = [measured(*quiet(61)), measured(*[UNKNOWN] * 61, name="pod-1")]
    assert judge(pods, NO_SESSIONS, minutes(61), HOUR_US, NOW_US).activity is Activity.UNKNOWN


def test_a_person_at_work_is_work_though_no_gpu_computes() -> None:
    sessions = Sessions(NOW_US - 10 * MINUTE_US, NOW_US)
    found = judge([measured(*quiet(61))], sessions, minutes(61), HOUR_US, NOW_US)
    assert (found.activity, found.quiet_since_us) == (Activity.QUIET, NOW_US - 10 * MINUTE_US)


def test_sessions_at_which_nobody_looks_any_more_are_unknown() -> None:
    sessions = Sessions(NOW_US - 5 * HOUR_US, NOW_US - HOUR_US)
    found = judge([measured(*quiet(61))], sessions, minutes(61), HOUR_US, NOW_US)
    assert found.activity is Activity.UNKNOWN
