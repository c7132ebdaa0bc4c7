"""What each day cost some group of work, and what a day of its weekday usually costs.

A usual day is the median of the same weekday over the eight weeks before: training runs by the week, and one
night of trouble must not move what is usual. With less than four weeks nothing is called usual.
"""

import datetime as dt
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.ledger.costs import Group, Key

WEEKS = 8
"""The weeks that tell what is usual."""

WEEKS_LEAST = 4
"""With fewer weeks nothing is usual."""

DAY = "day"
"""The grouping by which days are told; it is the last one of a key."""

Day = int
"""Days are numbered as Python numbers dates, so that a week is 7."""


class DailyCosts(msgspec.Struct, frozen=True):
    """Amounts by day, in micro-units; a day that is missing since the ``first`` cost nothing."""

    amounts: Mapping[Day, int]
    first: Day

    def of(self, days: Iterable[Day]) -> int:
        """What some days cost together."""
        return sum(self.amounts.get(day, 0) for day in days)

    def same_weekday(self, day: Day, until: Day) -> list[int]:
        """What the days of the same weekday cost, in the eight weeks before ``until`` and before the day."""
        behind = max(1, -(-(day - until + 1) // 7))
        days = (day - 7 * week for week in range(behind, behind + WEEKS))
        return [self.amounts.get(one, 0) for one in days if one >= self.first]

    def usual(self, day: Day, until: Day) -> int | None:
        """What such a day usually costs by the days before ``until``; None where too few are known."""
        known = self.same_weekday(day, until)
        return median(known) if len(known) >= WEEKS_LEAST else None


def median(amounts: Iterable[int]) -> int:
    """The median in whole micro-units, rounded down between two."""
    ordered = sorted(amounts)
    return (statistics.median_low(ordered) + statistics.median_high(ordered)) // 2


def by_day(groups: Iterable[Group]) -> dict[Key, DailyCosts]:
    """The days of each group, whose keys end with the day. Each group is known since its own first day."""
    found: dict[Key, dict[Day, int]] = defaultdict(lambda: defaultdict(int))
    for group in groups:
        if group.amount_micro is not None:
            found[group.key[:-1]][day_of(group.key[-1] or "")] += group.amount_micro
    return {key: DailyCosts(dict(days), min(days)) for key, days in found.items()}


def day_of(text: str) -> Day:
    """The number of a day such as 2026-11-29."""
    return dt.date.fromisoformat(text).toordinal()


def date_of(day: Day) -> str:
    """The day as it is written."""
    return dt.date.fromordinal(day).isoformat()
