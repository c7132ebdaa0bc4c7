"""Days that cost much more than such days usually do.

A day is unusual where it costs more than the median of its weekday and five times their median deviation, and
where what it costs more is above 3 % of the month before: a small group is not told of for every change.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.ledger.costs import Group, Key
from gpufleet.ledger.daily_costs import WEEKS_LEAST, DailyCosts, Day, by_day, median

DEVIATIONS = 5
"""How many median deviations above the median are unusual."""

MONTH_DAYS = 30
MONTH_PERCENT = 3
"""The part of the month before that makes a day worth telling of."""

WHOLE = 100
"""Parts are told in percent."""


class UnusualDay(msgspec.Struct, frozen=True):
    """A day of a group, what it cost, and what such a day usually costs."""

    key: Key
    day: Day
    amount_micro: int
    usual_micro: int

    @property
    def above_micro(self) -> int:
        """What it cost more."""
        return self.amount_micro - self.usual_micro


def unusual_days(groups: Iterable[Group], first: Day, until: Day) -> tuple[UnusualDay, ...]:
    """The unusual days of a time, what cost most above the usual first. Keys of groups end with the day."""
    found = [
        one
        for key, costs in by_day(groups).items()
        for day in range(first, until)
        if (one := _judged(key, costs, day)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (-one.above_micro, one.day, tuple(map(str, one.key)))))


def _judged(key: Key, costs: DailyCosts, day: Day) -> UnusualDay | None:
    amount = costs.amounts.get(day, 0)
    known = costs.same_weekday(day, day)
    if len(known) < WEEKS_LEAST:
        return None
    usual = median(known)
    deviation = median(abs(one - usual) for one in known)
    month = costs.of(range(day - MONTH_DAYS, day))
    above = amount - usual
    if above <= DEVIATIONS * deviation or WHOLE * above <= MONTH_PERCENT * month:
        return None
    return UnusualDay(key, day, amount, usual)
