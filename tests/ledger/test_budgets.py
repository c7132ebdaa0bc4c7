"""Budgets by hand: what is used, what the month will have cost, and on which day it passes the budget."""

import pytest

from gpufleet.ledger.budgets import Budget, BudgetReport, BudgetState, groupings_of, read_budgets, reports
from gpufleet.ledger.costs import Group
from gpufleet.ledger.daily_costs import date_of, day_of
from gpufleet.model.model_errors import InputError

HEADING = "by,name,period,amount,currency\n"
DOLLAR = 1_000_000


def group(day: int, amount: int, *key: str | None) -> Group:
    return Group((*key, date_of(day)), 0, 0, 0, 0, amount, None, None)


def report(budget: Budget, groups: list[Group], now: str, part: float = 1.0) -> BudgetReport:
    (found,) = reports([budget], groups, day_of(now), part)
    return found


def monthly(amount: int, name: str = "a") -> Budget:
    return Budget("queue", name, "month", amount * DOLLAR, "USD")


def since(first: str, until: str, queue: str = "a") -> list[Group]:
    """10 $ on each working day and 2 $ on each day of a weekend."""
    days = range(day_of(first), day_of(until) + 1)
    # Python's first day is a Monday.
    return [group(day, (2 if (day - 1) % 7 >= 5 else 10) * DOLLAR, queue) for day in days]


def test_a_month_by_hand() -> None:
    """November 2026 begins on a Sunday and has 21 working days and 9 others: 228 $ in all."""
    days = since("2026-09-01", "2026-11-15")
    # Ten working days and five others are over on the 15th: 110 $.
    found = report(monthly(200), days, "2026-11-15")
    assert (found.actual_micro, found.forecast_micro) == (110 * DOLLAR, 228 * DOLLAR)
    assert (found.percent, found.reached, found.state) == (55, 50, BudgetState.EXCEEDED_LATER)
    # 110 $, five days more, 4 $ of a weekend, then 174, 184, 194 and on Thursday the 26th 204 $.
    assert date_of(found.exceeded_on or 0) == "2026-11-26"
    assert (date_of(found.from_day), date_of(found.until_day)) == ("2026-11-01", "2026-12-01")


def test_of_a_day_that_is_not_over_the_rest_is_forecast() -> None:
    """A quarter of Monday the 16th is over, and cost 1 $: 7.50 $ and 108 $ are still to come."""
    days = [*since("2026-09-01", "2026-11-15"), group(day_of("2026-11-16"), DOLLAR, "a")]
    found = report(monthly(500), days, "2026-11-16", 0.25)
    assert found.forecast_micro == 226_500_000
    assert (found.state, found.exceeded_on) == (BudgetState.WITHIN, None)


def test_one_bad_night_does_not_move_the_forecast() -> None:
    days = since("2026-09-01", "2026-11-15")
    spike = group(day_of("2026-10-14"), 10_000 * DOLLAR, "a")
    assert report(monthly(200), [*days, spike], "2026-11-15").forecast_micro == 228 * DOLLAR


def test_less_than_four_weeks_make_no_forecast_and_what_is_spent_is_told() -> None:
    days = since("2026-11-01", "2026-11-15")
    found = report(monthly(100), days, "2026-11-15")
    assert (found.actual_micro, found.forecast_micro, found.exceeded_on) == (110 * DOLLAR, None, None)
    assert (found.state, found.reached) == (BudgetState.EXCEEDED, 100)


def test_a_group_of_which_nothing_is_known_has_cost_nothing() -> None:
    found = report(monthly(100, "other"), since("2026-09-01", "2026-11-15"), "2026-11-15")
    assert (found.actual_micro, found.forecast_micro, found.reached) == (0, 0, None)


@pytest.mark.parametrize(
    ("period", "day", "bounds"),
    [
        ("month", "2026-12-31", ("2026-12-01", "2027-01-01")),
        ("quarter", "2026-05-07", ("2026-04-01", "2026-07-01")),
        ("quarter", "2026-11-07", ("2026-10-01", "2027-01-01")),
        ("year", "2026-05-07", ("2026-01-01", "2027-01-01")),
    ],
)
def test_periods_are_those_of_the_calendar(period: str, day: str, bounds: tuple[str, str]) -> None:
    begin, end = Budget("queue", "a", period, 1, "USD").bounds(day_of(day))
    assert (date_of(begin), date_of(end)) == bounds


def test_budgets_of_several_groupings_are_answered_from_one_set_of_groups() -> None:
    budgets = [monthly(100), Budget("team", "red", "month", 50 * DOLLAR, "USD")]
    assert groupings_of(budgets) == ("queue", "team", "day")
    day = day_of("2026-11-15")
    groups = [group(day, 3, "a", "red"), group(day, 5, "a", "blue"), group(day, 7, "b", "red")]
    assert [one.actual_micro for one in reports(budgets, groups, day, 1.0)] == [8, 10]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("queues,a,month,1,USD", "no such grouping"),
        ("day,a,month,1,USD", "no such grouping"),
        ("label:,a,month,1,USD", "no such grouping"),
        ("queue,a,week,1,USD", "no period"),
        ("queue,a,month,0,USD", "no budget"),
        ("queue,a,month,much,USD", "not an amount"),
        ("queue,a,month,1,dollars", "not a currency"),
    ],
)
def test_a_line_that_is_no_budget_is_told(line: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        read_budgets([HEADING, line], "b.csv")
    assert "b.csv, line 2" in str(raised.value)


def test_a_table_without_a_line_has_no_budget() -> None:
    with pytest.raises(InputError, match="has no budget"):
        read_budgets([HEADING], "b.csv")
