"""Unusual days are found where they were put, and hardly any other day is called unusual."""

import random

from gpufleet.ledger.costs import Group
from gpufleet.ledger.daily_costs import date_of, day_of
from gpufleet.ledger.unusual_days import unusual_days

DOLLAR = 1_000_000
FIRST = day_of("2026-01-05")
"""A Monday."""


def group(day: int, amount: int, queue: str = "a") -> Group:
    return Group((queue, date_of(day)), 0, 0, 0, 0, amount, None, None)


def weeks(costs: list[int], queue: str = "a") -> list[Group]:
    """Mondays of so many dollars, one a week; other days cost nothing."""
    return [group(FIRST + 7 * week, dollars * DOLLAR, queue) for week, dollars in enumerate(costs)]


def found(groups: list[Group], until: int = FIRST + 400) -> list[tuple[str | None, str, int, int]]:
    return [
        (one.key[0], date_of(one.day), one.amount_micro // DOLLAR, one.usual_micro // DOLLAR)
        for one in unusual_days(groups, FIRST, until)
    ]


def test_five_deviations_by_hand() -> None:
    """Of 10, 12, 14, 16 and 18 the median is 14 and the median deviation 2: up to 24 is usual."""
    assert found(weeks([10, 12, 14, 16, 18, 24])) == []
    assert found(weeks([10, 12, 14, 16, 18, 25])) == [("a", "2026-02-09", 25, 14)]


def test_a_small_change_of_what_never_changes_is_not_told() -> None:
    """Every Monday cost 100 $, so 400 $ are the month before; 3 % of it are 12 $."""
    assert found(weeks([100] * 8 + [112])) == []
    assert found(weeks([100] * 8 + [113])) == [("a", "2026-03-02", 113, 100)]


def test_of_what_is_new_nothing_is_unusual() -> None:
    assert found(weeks([10, 10, 10, 500])) == []
    assert len(found(weeks([10, 10, 10, 10, 500]))) == 1


def test_a_year_with_a_known_truth() -> None:
    """Twenty seeds of a year of three queues with a rhythm of the week, noise, and days that went wrong."""
    right = wrong = missed = 0
    for seed in range(20):
        draw = random.Random(seed)
        groups, truth = [], set()
        for queue in "abc":
            base = draw.uniform(100, 5_000)
            for day in range(FIRST, FIRST + 365):
                weekend = (day - FIRST) % 7 >= 5
                cost = base * (0.3 if weekend else 1) * draw.gauss(1, 0.08)
                if day > FIRST + 40 and draw.random() < 0.02:
                    cost += base * draw.uniform(1.5, 4)
                    truth.add((queue, date_of(day)))
                groups.append(group(day, int(max(0, cost) * DOLLAR), queue))
        told = {(queue, day) for queue, day, *_ in found(groups)}
        right, wrong, missed = (
            right + len(told & truth),
            wrong + len(told - truth),
            missed + len(truth - told),
        )
    assert right / (right + wrong) > 0.8, (right, wrong)
    assert right / (right + missed) > 0.95, (right, missed)
