"""A month that is to come has the work of the same weekdays and hours, so many times as is said."""

import datetime as dt
from fractions import Fraction
from pathlib import Path

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.plan.history.demand import Demand, read_history
from gpufleet.plan.history.forecast import (
    DAY_US,
    HOUR_US,
    LEAD_DAYS,
    grown,
    of_month,
    read_growth,
    read_month,
)
from gpufleet.plan.instance_types import read_catalogue
from tests.plan.history.histories import HOUR_S, TYPES, history

BEGIN = dt.datetime(2026, 11, 2, tzinfo=dt.UTC)
"""A Monday."""

BEGIN_US = int(BEGIN.timestamp()) * 10**6
DAY_S = 86_400
ONE = Fraction(1)


def demand(folder: Path, *rows: str, columns: str = "creation_time,duration_s") -> Demand:
    return read_history(history(folder, *rows, columns=columns), read_catalogue(TYPES, "types").types, ())


def a_task_a_day(folder: Path, days: int) -> Demand:
    """At nine on each day; how long it runs says which day it was: a minute more each day."""
    rows = [f"d{day},1,1,1,1000,{day * DAY_S + 9 * HOUR_S},{60 * (day + 1)}" for day in range(days)]
    return demand(folder, *rows)


def test_each_day_of_the_month_has_the_work_of_its_weekday(tmp_path: Path) -> None:
    """December 2026 begins on a Tuesday; the history has two weeks, from a Monday on."""
    forecast, words = of_month(a_task_a_day(tmp_path, 14), BEGIN_US, (2026, 12), ONE)
    of_days = "the same weekdays and hours (UTC) of 2026-11-02 to 2026-11-15"
    assert words == f"a forecast for 2026-12: {of_days}; no measurement"
    begin = dt.date(2026, 12, 1) - dt.timedelta(days=LEAD_DAYS)
    assert forecast.counts_from_us == LEAD_DAYS * DAY_US
    assert len(forecast.tasks) == LEAD_DAYS + 31
    for task in forecast.tasks:
        day, rest_us = divmod(task.created_at_us, DAY_US)
        assert rest_us == 9 * HOUR_US
        source = (task.duration_us or 0) // (60 * 10**6) - 1
        then = BEGIN.date() + dt.timedelta(days=source)
        assert then.weekday() == (begin + dt.timedelta(days=day)).weekday()
    # Both weeks take turns, and no name is there twice.
    assert {(task.duration_us or 0) // (60 * 10**6) for task in forecast.tasks} == set(range(1, 15))
    assert len({task.name for task in forecast.tasks}) == len(forecast.tasks)


def test_only_the_last_whole_weeks_count(tmp_path: Path) -> None:
    """Of ten days the last seven: 2026-11-05 to 2026-11-11."""
    _, words = of_month(a_task_a_day(tmp_path, 10), BEGIN_US, (2026, 12), ONE)
    assert "2026-11-05 to 2026-11-11" in words


def test_a_history_of_six_days_has_no_week(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 6 days"):
        of_month(a_task_a_day(tmp_path, 6), BEGIN_US, (2026, 12), ONE)


def test_what_has_no_end_runs_on_once(tmp_path: Path) -> None:
    rows = [f"d{day},1,1,1,1000,{day * DAY_S},60" for day in range(7)]
    forecast, _ = of_month(demand(tmp_path, *rows, f"serves,1,1,1,1000,{DAY_S},"), BEGIN_US, (2026, 12), ONE)
    found = [task for task in forecast.tasks if task.duration_us is None]
    assert [(task.name, task.created_at_us) for task in found] == [("serves", 0)]


def test_growth_repeats_units_whole_within_their_hour_and_each_size_alike(tmp_path: Path) -> None:
    """Of 1.2 times ten tasks of one GPU and five gangs of two each: twelve, and six gangs."""
    columns = "gang,creation_time,duration_s"
    rows = [f"s{number},1,1,1,1000,,{number * 600},60" for number in range(10)]
    rows += [
        f"g{number}-{member},1,1,1,1000,g{number},{number * 600},60"
        for number in range(5)
        for member in (0, 1)
    ]
    before = demand(tmp_path, *rows, columns=columns)
    after = grown(before, Fraction("1.2"))
    single = [task for task in after.tasks if task.gang is None]
    assert (len(single), len(after.gangs), len(after.tasks)) == (12, 6, 24)
    assert all(sum(task.gang == gang.name for task in after.tasks) == 2 for gang in after.gangs)
    times = {task.name: task.created_at_us for task in before.tasks}
    for task in after.tasks:
        original = task.name.partition("+")[0]
        assert task.created_at_us // HOUR_US == times[original] // HOUR_US
    # The same number in each hour as before, a fifth more: nobody is moved to another hour.
    assert grown(before, ONE) is before


def test_half_the_work_is_each_second_task(tmp_path: Path) -> None:
    rows = [f"s{number},1,1,1,1000,{number},60" for number in range(6)]
    assert [task.name for task in grown(demand(tmp_path, *rows), Fraction(1, 2)).tasks] == ["s1", "s3", "s5"]


@pytest.mark.parametrize("text", ["", "0", "-1", "1e3", "1.", "101", "x", "1.2.3"])
def test_factors_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--growth"):
        read_growth(text)


@pytest.mark.parametrize("text", ["", "2026-13", "2026", "26-12", "2026-1", "1969-12", "2026-12-01"])
def test_months_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--month"):
        read_month(text)
