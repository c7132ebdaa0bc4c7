"""What the periods of budgets cost so far, for a ledger that asks every few minutes.

Rows of hours follow from observations and prices, so a day of which nothing new can come is worked out once:
two days after its end. Younger days are worked out each time.
"""

from collections.abc import Callable, Iterator, Sequence

from gpufleet.ledger.budgets import Budget, BudgetReport, groupings_of, reports
from gpufleet.ledger.costs import Group, cost_of
from gpufleet.ledger.daily_costs import Day, day_of
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.months import begin_us, end_us, month_of
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.ledger.stamps import DAY_US

EPOCH = day_of("1970-01-01")

OPEN_DAYS = 2
"""A version or an end that comes later than so many days after it changes no hold."""

LogOf = Callable[[str], IntervalLog | None]
"""What a month has seen; None for one that is not kept."""


class BudgetCosts:
    """Works out what budgets have used, by one book of prices."""

    def __init__(self, budgets: Sequence[Budget], book: PriceBook) -> None:
        self.budgets = budgets
        self._book = book
        self._by = groupings_of(budgets)
        self._closed: dict[Day, tuple[Group, ...]] = {}

    def reports(self, log_of: LogOf, now_us: int) -> tuple[BudgetReport, ...]:
        """How each budget is doing now. Raises InputError and WorldError."""
        now, over_us = divmod(now_us, DAY_US)
        today = EPOCH + now
        first = min(budget.bounds(today)[0] for budget in self.budgets)
        groups = [group for day in self._days(log_of, first, now_us) for group in day]
        return tuple(reports(self.budgets, groups, today, over_us / DAY_US))

    def _days(self, log_of: LogOf, first: Day, now_us: int) -> Iterator[tuple[Group, ...]]:
        """The groups of each day from the first one on."""
        closed_before = EPOCH + now_us // DAY_US - OPEN_DAYS
        for month in _months(first, now_us):
            from_us = max(begin_us(month), _begin_us(first))
            until_us = min(end_us(month), now_us)
            # Days are worked out in order, so those that are closed are the first ones.
            while EPOCH + from_us // DAY_US in self._closed and from_us < until_us:
                yield self._closed[EPOCH + from_us // DAY_US]
                from_us += DAY_US
            if from_us < until_us:
                yield from self._worked_out(log_of(month), Span(from_us, until_us), closed_before)

    def _worked_out(
        self, log: IntervalLog | None, span: Span, closed_before: Day
    ) -> Iterator[tuple[Group, ...]]:
        # All days together: to derive intervals takes longer than to account for a day.
        groups = () if log is None else cost_of(log.by_node(), self._book, span, self._by).groups
        by_day: dict[Day, list[Group]] = {}
        for group in groups:
            by_day.setdefault(day_of(group.key[-1] or ""), []).append(group)
        for day in range(EPOCH + span.from_us // DAY_US, EPOCH + -(-(span.until_us or 0) // DAY_US)):
            found = tuple(by_day.get(day, ()))
            if day < closed_before:
                self._closed[day] = found
            yield found


def _begin_us(day: Day) -> int:
    return (day - EPOCH) * DAY_US


def _months(first: Day, now_us: int) -> Iterator[str]:
    """The months from the one of a day to that of a moment."""
    at_us = _begin_us(first)
    while at_us <= now_us:
        month = month_of(at_us)
        yield month
        at_us = end_us(month)
