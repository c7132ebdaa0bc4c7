"""Budgets of groups of work, and what their period will have cost at its end.

The forecast is what the period has cost so far and, for each day that is left, what such a day usually costs.
A budget that names queues holds their new work once it is spent (``spent_budgets``); nothing is ever evicted
for one.
"""

import datetime as dt
import enum
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gpufleet.ledger.costs import COLUMNS, LABEL, Group
from gpufleet.ledger.daily_costs import DailyCosts, Day, by_day
from gpufleet.ledger.price_files.table_cells import Line, lines_of
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError

REQUIRED = ("by", "name", "period", "amount", "currency")
"""Columns of a table of budgets."""

HOLDS = "holds"
"""The column of the FleetQueues whose new work waits once the budget is spent."""

PARTS = (50, 80, 100)
"""Percents of a budget that are told when they are reached."""

MONTHS = {"month": 1, "quarter": 3, "year": 12}
"""Periods, by how many months they have; each begins with the year or divides it."""

MONTHS_OF_YEAR = 12
"""The month after the last one is of the next year."""

WHOLE = 100
"""Parts are told in percent."""


class BudgetState(enum.StrEnum):
    """How a budget is doing, the worst last."""

    WITHIN = "within"
    EXCEEDED_LATER = "will be exceeded"
    EXCEEDED = "exceeded"


class Budget(msgspec.Struct, frozen=True):
    """An amount for a period. ``by`` is a grouping of ``gpufleet cost``, ``name`` one of its groups.

    New work of the queues in ``holds`` waits once the amount is spent.
    """

    by: str
    name: str
    period: str
    amount_micro: int
    currency: str
    holds: tuple[str, ...] = ()

    def bounds(self, day: Day) -> tuple[Day, Day]:
        """The first day of the period that a day is in, and the first day after it."""
        date, months = dt.date.fromordinal(day), MONTHS[self.period]
        first = (date.month - 1) // months * months + 1
        following = first + months
        year, month = (date.year, following) if following <= MONTHS_OF_YEAR else (date.year + 1, 1)
        return dt.date(date.year, first, 1).toordinal(), dt.date(year, month, 1).toordinal()


class BudgetReport(msgspec.Struct, frozen=True):
    """What a period has cost so far and will have cost, None where too little is known for a forecast.

    ``exceeded_on`` is the day on which the forecast passes the budget.
    """

    budget: Budget
    from_day: Day
    until_day: Day
    actual_micro: int
    forecast_micro: int | None
    exceeded_on: Day | None

    @property
    def percent(self) -> int:
        """The used part, rounded down: all of it is used only when it is."""
        return WHOLE * self.actual_micro // self.budget.amount_micro

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left of it."""
        return self.actual_micro >= self.budget.amount_micro

    @property
    def reached(self) -> int | None:
        """The largest of PARTS that is used."""
        return max((part for part in PARTS if part <= self.percent), default=None)

    @property
    def state(self) -> BudgetState:
        """What is to be done about it, if anything."""
        if self.actual_micro > self.budget.amount_micro:
            return BudgetState.EXCEEDED
        if self.forecast_micro is not None and self.forecast_micro > self.budget.amount_micro:
            return BudgetState.EXCEEDED_LATER
        return BudgetState.WITHIN


def read_budgets(lines: Iterable[str], name: str) -> tuple[Budget, ...]:
    """The budgets of a table. Raises InputError, naming line and column."""
    found = tuple(_budget(line) for line in lines_of(lines, name, REQUIRED, (HOLDS,)))
    if not found:
        raise InputError("has no budget", where=name, expected="a line for each budget")
    return found


def _budget(line: Line) -> Budget:
    by, period = line.text("by"), line.text("period")
    is_label = by.startswith(LABEL) and len(by) > len(LABEL)
    if by == "day" or (by not in COLUMNS and not is_label):
        expected = f"{', '.join(one for one in COLUMNS if one != 'day')}, or label:KEY"
        raise InputError("no such grouping", where=line.where, field="by", value=by, expected=expected)
    if period not in MONTHS:
        expected = ", ".join(MONTHS)
        raise InputError("no period", where=line.where, field="period", value=period, expected=expected)
    amount = line.micro("amount")
    if not amount:
        raise InputError("no budget", where=line.where, field="amount", value=0, expected="an amount above 0")
    return Budget(by, line.text("name"), period, amount, line.currency(), _held_queues(line))


def _held_queues(line: Line) -> tuple[str, ...]:
    """Names of FleetQueues, several of them after semicolons."""
    names = tuple(filter(None, (one.strip() for one in line.text(HOLDS).split(";"))))
    for name in names:
        if not is_subdomain(name):
            expected = "names of FleetQueues, more of them after a semicolon"
            raise InputError("no queue's name", where=line.where, field=HOLDS, value=name, expected=expected)
    return tuple(dict.fromkeys(names))


def groupings_of(budgets: Iterable[Budget]) -> tuple[str, ...]:
    """What rows are put together by for all budgets at once; the day is the last."""
    return (*dict.fromkeys(one.by for one in budgets), "day")


def reports(
    budgets: Sequence[Budget], groups: Sequence[Group], now: Day, part: float
) -> Iterator[BudgetReport]:
    """How each budget is doing on a day of which a part is over, by groups of ``groupings_of``."""
    names = groupings_of(budgets)[:-1]
    first = min((one.first for one in by_day(groups).values()), default=now)
    for budget in budgets:
        place = names.index(budget.by)
        of_budget = (
            msgspec.structs.replace(one, key=(one.key[-1],))
            for one in groups
            if one.key[place] == budget.name
        )
        known = by_day(of_budget).get((), DailyCosts({}, first))
        # A group that is new cost nothing before: the ledger knows those days.
        yield _report(budget, DailyCosts(known.amounts, first), now, part)


def _report(budget: Budget, costs: DailyCosts, now: Day, part: float) -> BudgetReport:
    begin, end = budget.bounds(now)
    actual = costs.of(range(begin, now + 1))
    forecast, exceeded_on = actual, None
    for day in range(now, end):
        usual = costs.usual(day, now)
        if usual is None:
            return BudgetReport(budget, begin, end, actual, None, None)
        # Of the day that is not over the part that is left.
        forecast += usual if day > now else round(usual * (1 - part))
        if exceeded_on is None and forecast > budget.amount_micro:
            exceeded_on = day
    return BudgetReport(budget, begin, end, actual, forecast, exceeded_on)
