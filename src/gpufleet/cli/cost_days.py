"""Budgets and unusual days of ``gpufleet cost``: what they ask of the past, and how their answers look."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpufleet.cli.cost_input import DAY_US, Asked, groupings, span_of
from gpufleet.cli.cost_output import NO_POD, NO_VALUE, UNKNOWN, exact, money_texts
from gpufleet.cli.output import echo_data, echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.files.regular import MEBIBYTE, read_regular
from gpufleet.ledger.budgets import Budget, BudgetReport, groupings_of, read_budgets, reports
from gpufleet.ledger.costs import Cost
from gpufleet.ledger.daily_costs import DAY, WEEKS, date_of, day_of
from gpufleet.ledger.spans import Span
from gpufleet.ledger.unusual_days import MONTH_DAYS, UnusualDay, unusual_days
from gpufleet.model.model_errors import InputError

FORMS = ("text", "csv", "json")
"""Forms of the answers."""

BUDGETS_BYTES_MAX = 16 * MEBIBYTE
"""A line has some fifty bytes."""

EPOCH = day_of("1970-01-01")
YEAR_DAYS = 366
"""A budget's period is at most a year."""

Rows = Sequence[Mapping[str, str | None]]


def check_form(output: str) -> None:
    """Raises InputError for a form that these answers have not."""
    if output not in FORMS:
        expected = ", ".join(FORMS)
        raise InputError("no form of days", field="--output", value=output, expected=expected)


class Budgets:
    """How budgets are doing at the end of what is known."""

    def __init__(self, path: Path, output: str, named: Mapping[str, object]) -> None:
        """Raises InputError for a table of budgets that is none, and for options that do not go with one."""
        check_form(output)
        for option, is_named in named.items():
            if is_named:
                expected = "--budgets without it, as a budget says its own group and period"
                raise InputError("goes with no budget", field=option, expected=expected)
        try:
            text = read_regular(path, BUDGETS_BYTES_MAX, field="--budgets").decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError("not text", where=str(path), expected="a table of budgets") from error
        self._budgets = read_budgets(io.StringIO(text, newline=""), str(path))
        self.by = groupings_of(self._budgets)

    def span(self, asked: Asked, known_until_us: int, first_us: int | None = None) -> Span:
        """All that budgets and forecasts need."""
        end_us = span_of(None, asked[1], known_until_us).until_us or 0
        return _since(end_us // DAY_US - YEAR_DAYS, end_us, first_us)

    def show(self, cost: Cost, output: str, notes: Iterable[str]) -> None:
        """Print the answer. Raises InputError for budgets in another currency than the costs."""
        _check_currency(self._budgets, cost.currency)
        now, over = divmod(max(0, (cost.span.until_us or 0) - 1), DAY_US)
        found = list(reports(self._budgets, cost.groups, EPOCH + now, (over + 1) / DAY_US))
        rows = [_budget_row(one) for one in found]
        _show("budgets", rows, cost, output, [*_unpriced(cost), *notes], _budget_lines(found, cost))


def _check_currency(budgets: Iterable[Budget], currency: str) -> None:
    for one in budgets:
        if one.currency != currency:
            expected = f"{currency}, as costs are in" if currency else "--prices, as budgets are of money"
            raise InputError(
                "a budget in another currency than costs",
                field="--budgets",
                value=one.currency,
                expected=expected,
            )


def _budget_row(one: BudgetReport) -> dict[str, str | None]:
    return {
        "by": one.budget.by,
        "name": one.budget.name,
        "from": date_of(one.from_day),
        "until": date_of(one.until_day),
        "budget": exact(one.budget.amount_micro),
        "cost": exact(one.actual_micro),
        "percent": str(one.percent),
        "reached": None if one.reached is None else str(one.reached),
        "forecast": exact(one.forecast_micro),
        "exceeded_on": None if one.exceeded_on is None else date_of(one.exceeded_on),
        "state": one.state,
    }


def _budget_lines(found: Sequence[BudgetReport], cost: Cost) -> Iterator[str]:
    columns = [Column("GROUP"), Column("UNTIL"), Column(f"BUDGET {cost.currency}", right=True)]
    columns += [Column(name, right=True) for name in ("COST", "USED", "FORECAST")]
    columns += [Column("EXCEEDED ON"), Column("STATE")]
    rows = [
        [
            f"{one.budget.by} {one.budget.name}",
            date_of(one.until_day - 1),
            *money_texts([one.budget.amount_micro, one.actual_micro]),
            f"{one.percent} %",
            *([UNKNOWN] if one.forecast_micro is None else money_texts([one.forecast_micro])),
            UNKNOWN if one.exceeded_on is None else date_of(one.exceeded_on),
            one.state,
        ]
        for one in found
    ]
    yield from (line.text for line in laid_out(columns, ((row, "") for row in rows), None))


class UnusualDays:
    """Days of a time that cost much more than such days usually do."""

    def __init__(self, by: str | None, output: str) -> None:
        """Raises InputError."""
        check_form(output)
        names = groupings("queue" if by is None else by)
        if DAY in names:
            expected = "other groupings, as every day is looked at anyway"
            raise InputError("is not asked for", field="--by", value=by, expected=expected)
        self.by = (*names, DAY)
        self._first = 0

    def span(self, asked: Asked, known_until_us: int, first_us: int | None = None) -> Span:
        """The time that is asked for, by default a month, and the weeks before that tell what is usual."""
        span = span_of(*asked, known_until_us)
        end_us = span.until_us or 0
        self._first = (end_us // DAY_US - MONTH_DAYS) if asked[0] is None else span.from_us // DAY_US
        return _since(self._first - 7 * WEEKS, end_us, first_us)

    def show(self, cost: Cost, output: str, notes: Iterable[str]) -> None:
        """Print the answer. A day that is not over is judged by what it cost so far."""
        until = -(-(cost.span.until_us or 0) // DAY_US)
        found = unusual_days(cost.groups, EPOCH + self._first, EPOCH + until)
        rows = [self._row(one) for one in found]
        _show("days", rows, cost, output, [*_unpriced(cost), *notes], self._lines(found, cost))

    def _row(self, one: UnusualDay) -> dict[str, str | None]:
        return {
            "day": date_of(one.day),
            **dict(zip(self.by, one.key, strict=False)),
            "cost": exact(one.amount_micro),
            "usual": exact(one.usual_micro),
            "above": exact(one.above_micro),
        }

    def _lines(self, found: Sequence[UnusualDay], cost: Cost) -> Iterator[str]:
        if not found:
            yield "No day cost much more than such days usually do."
            return
        columns = [Column("DAY"), *(Column(name.upper()) for name in self.by[:-1])]
        names = (f"COST {cost.currency}", "USUAL", "ABOVE")
        columns += [Column(name, right=True) for name in names]
        rows = [
            [
                date_of(one.day),
                *(NO_POD if part is None else part or NO_VALUE for part in one.key),
                *money_texts([one.amount_micro, one.usual_micro, one.above_micro]),
            ]
            for one in found
        ]
        yield from (line.text for line in laid_out(columns, ((row, "") for row in rows), None))


def _since(day: int, end_us: int, first_us: int | None) -> Span:
    return Span(max(day * DAY_US, first_us or 0), end_us)


def _unpriced(cost: Cost) -> Iterator[str]:
    if cost.total.unpriced:
        yield "some GPU-hours have no price, and are in no amount"


def _show(name: str, rows: Rows, cost: Cost, output: str, notes: Sequence[str], lines: Iterable[str]) -> None:
    if output == "json":
        echo_json({"currency": cost.currency or None, name: rows, "notes": list(notes)})
        return
    if output == "csv":
        file = io.StringIO()
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        if rows:
            writer.writeheader()
            writer.writerows(rows)
        echo_data(file.getvalue())
    else:
        for line in lines:
            echo_line(line)
    for note in notes:
        echo_line(f"note: {note}", err=True)
