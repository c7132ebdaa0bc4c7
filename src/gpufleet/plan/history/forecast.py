"""A month that is to come, from the same weekdays and hours of a history; and more or less of the same work.

No trend is found out and no holiday is known: what was asked for on the Mondays of the history is asked for
again on those of the month. Growth is said by the user. A task or a gang is repeated whole, at another moment
of the same hour, so that requests keep their mix and hours their share.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import msgspec

from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.plan.history.demand import HISTORY, Demand
from gpufleet.replay.arrivals import ArrivalUnit, mark_of_clones, units_of
from gpufleet.replay.trace import Trace

GROWTH, MONTH = "--growth", "--month"
GROWTH_MAX = 100
HOUR_US = 3_600 * 10**6
DAY_US = 24 * HOUR_US
WEEK_DAYS = 7
LEAD_DAYS = 7
"""Days before the month that are played too, so that their work is on the fleet when it begins."""

SPREAD_US = 2_224_000_000
"""How far a repeated task moves within its hour from the one before: 0.618 of the hour, the golden section,
which spreads any number of them evenly.
"""

Month = tuple[int, int]
"""Year and month."""


def read_month(text: str) -> Month:
    """A month as it was typed. Raises InputError."""
    year, dash, month = text.partition("-")
    digits = len(year) == 4 and len(month) == 2 and (year + month).isascii() and (year + month).isdecimal()
    if not (dash and digits and 1 <= int(month) <= 12 and int(year) >= 1970):
        raise InputError("not a month", field=MONTH, value=text, expected="such as 2026-12")
    return int(year), int(month)


def read_growth(text: str) -> Fraction:
    """A factor as it was typed. Raises InputError."""
    whole, _, part = text.partition(".")
    digits = (whole + part).isascii() and (whole + part).isdecimal() and whole and len(text) <= 8
    growth = Fraction(text) if digits and not text.endswith(".") else Fraction(0)
    if not 0 < growth <= GROWTH_MAX:
        expected = f"a number such as 1.2, above 0 and at most {GROWTH_MAX}"
        raise InputError("not a factor", field=GROWTH, value=text, expected=expected)
    return growth


def grown(demand: Demand, growth: Fraction) -> Demand:
    """So many times the work, at the times of the history."""
    if growth == 1:
        return demand
    return _demand(demand, _repeated(_units(demand), growth))


def of_month(demand: Demand, begin_us: int, month: Month, growth: Fraction) -> tuple[Demand, str]:
    """The work of a month from the last whole weeks of a history that begins at ``begin_us``, with a sentence
    that says how it was made. Times count from a week before the month. Raises InputError for a history that
    is shorter than a week.
    """
    units = _repeated(_units(demand), growth)
    by_day: defaultdict[int, list[ArrivalUnit]] = defaultdict(list)
    for unit in units:
        by_day[(begin_us + _begin(unit)) // DAY_US].append(unit)
    last, weeks = max(by_day), (max(by_day) - min(by_day) + 1) // WEEK_DAYS
    if not weeks:
        days = counted(max(by_day) - min(by_day) + 1, "day")
        raise InputError(f"has {days}", field=HISTORY, expected=f"at least a week, as {MONTH} takes weekdays")
    first = last - weeks * WEEK_DAYS + 1
    begin, end = _days_of(month)
    lead = begin - LEAD_DAYS
    # What has no end runs on from the history, so it comes once, and before everything else.
    moved = [_moved(unit, -_begin(unit)) for unit in units if _has_no_end(unit)]
    for day in range(lead, end):
        week = (day - lead) // WEEK_DAYS % weeks
        source = first + (day - first) % WEEK_DAYS + week * WEEK_DAYS
        by_us = begin_us + (day - source - lead) * DAY_US
        moved += [_moved(unit, by_us) for unit in by_day[source] if not _has_no_end(unit)]
    scaled = "" if growth == 1 else f", times {float(growth):g}"
    sentence = (
        f"a forecast for {month[0]}-{month[1]:02}: the same weekdays and hours (UTC) of "
        f"{_date(first)} to {_date(last)}{scaled}; no measurement"
    )
    forecast = _demand(demand, _named_once(moved))
    if not any(task.created_at_us >= LEAD_DAYS * DAY_US for task in forecast.tasks):
        raise InputError("asks for nothing in its last whole weeks", field=HISTORY, expected="tasks")
    return msgspec.structs.replace(forecast, counts_from_us=LEAD_DAYS * DAY_US), sentence


def _units(demand: Demand) -> list[ArrivalUnit]:
    return units_of(Trace((), demand.tasks, demand.gangs, timed=True))


def _begin(unit: ArrivalUnit) -> int:
    return min(task.created_at_us for task in unit.tasks)


def _has_no_end(unit: ArrivalUnit) -> bool:
    return any(task.duration_us is None and task.withdrawn_at_us is None for task in unit.tasks)


def _repeated(units: Iterable[ArrivalUnit], growth: Fraction) -> list[ArrivalUnit]:
    """Each unit as often as its turn says: of 1.2 times the work each fifth one comes twice. Units of one
    size stand together, so that each size grows alike.
    """
    ordered = sorted(units, key=lambda unit: (unit.gpu_milli, _begin(unit), unit.tasks[0].name))
    mark = mark_of_clones(ordered)
    found: list[ArrivalUnit] = []
    for number, unit in enumerate(ordered):
        times = int(growth * (number + 1)) - int(growth * number)
        found += [unit] * min(1, times)
        for copy in range(1, times):
            at_us = (_begin(unit) + SPREAD_US * (number + copy)) % HOUR_US
            found.append(_moved(unit.clone(f"{mark}{copy}"), at_us - _begin(unit) % HOUR_US))
    return found


def _moved(unit: ArrivalUnit, by_us: int) -> ArrivalUnit:
    tasks = tuple(
        msgspec.structs.replace(
            task,
            created_at_us=task.created_at_us + by_us,
            withdrawn_at_us=None if task.withdrawn_at_us is None else task.withdrawn_at_us + by_us,
        )
        for task in unit.tasks
    )
    if unit.gang is None:
        return ArrivalUnit(tasks)
    at_us = unit.gang.created_at_us + by_us
    return ArrivalUnit(tasks, msgspec.structs.replace(unit.gang, created_at_us=at_us))


def _named_once(units: Sequence[ArrivalUnit]) -> Iterator[ArrivalUnit]:
    """The units by time; what comes again gets a name of its own."""
    mark = mark_of_clones(units)
    seen: defaultdict[str, int] = defaultdict(int)
    for unit in sorted(units, key=lambda one: (_begin(one), one.tasks[0].name)):
        number = seen[unit.tasks[0].name]
        seen[unit.tasks[0].name] += 1
        yield unit.clone(f"{mark}{number}") if number else unit


def _demand(demand: Demand, units: Iterable[ArrivalUnit]) -> Demand:
    listed = list(units)
    tasks = tuple(task for unit in listed for task in unit.tasks)
    gangs = tuple(unit.gang for unit in listed if unit.gang is not None)
    return msgspec.structs.replace(demand, tasks=tasks, gangs=gangs)


def _days_of(month: Month) -> tuple[int, int]:
    """The first day of a month and that of the next one, counted from 1970."""
    year, number = month
    begin = dt.date(year, number, 1)
    end = dt.date(year + number // 12, number % 12 + 1, 1)
    epoch = dt.date(1970, 1, 1)
    return (begin - epoch).days, (end - epoch).days


def _date(day: int) -> str:
    return (dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat()
