"""What the periods of budgets cost so far; days that are over are worked out once."""

import datetime as dt

import pytest

from gpufleet.ledger import budget_costs
from gpufleet.ledger.budget_costs import BudgetCosts
from gpufleet.ledger.budgets import Budget
from gpufleet.ledger.costs import Cost, cost_of
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.price_book import PriceBook, PricedNode
from gpufleet.ledger.price_files.recognised import book_of, read_prices
from gpufleet.ledger.spans import Span
from gpufleet.ledger.versions import Followed, NodeVersion, ObjectKind
from gpufleet.model.identifiers import NodeName

EURO = 1_000_000
HEADING = "unit,amount,currency,gpu_amount\n"


def at(day: int, hour: int = 0, month: int = 11) -> int:
    return int(dt.datetime(2026, month, day, hour, tzinfo=dt.UTC).timestamp()) * 1_000_000


def book(amount: str) -> PriceBook:
    return book_of([read_prices(f"{HEADING}node-hour,{amount},EUR,1\n".encode(), "prices.csv")])


def log(since_us: int = at(1, month=10)) -> IntervalLog:
    """A node that is there since then."""
    found = IntervalLog()
    node = NodeVersion("u", 1, since_us, NodeName("n"), since_us, priced_as=PricedNode())
    found.take(node)
    found.take(Followed(ObjectKind.NODE, since_us, at(31, month=12)))
    return found


def always(_: str) -> IntervalLog:
    """Every month is kept."""
    return log()


def never(_: str) -> None:
    """No month is kept."""


def node_budget(period: str = "month", amount: int = 500) -> Budget:
    return Budget("node", "n", period, amount * EURO, "EUR", ("team",))


def test_a_month_so_far_by_hand() -> None:
    """2 EUR an hour, nine days and twelve hours of November: 456 EUR."""
    (found,) = BudgetCosts([node_budget()], book("2")).reports(always, at(10, 12))
    assert (found.actual_micro, found.is_spent) == (456 * EURO, False)
    (found,) = BudgetCosts([node_budget(amount=456)], book("2")).reports(always, at(10, 12))
    assert found.is_spent


def test_a_quarter_has_the_months_before_and_what_is_not_kept_cost_nothing() -> None:
    """October's 31 days are 1,488 EUR; where its month is not kept, November's 240 EUR alone are known."""
    costs = BudgetCosts([node_budget("quarter")], book("2"))
    (found,) = costs.reports(always, at(6))
    assert found.actual_micro == (1488 + 240) * EURO
    costs = BudgetCosts([node_budget("quarter")], book("2"))
    (found,) = costs.reports(lambda month: log() if month == "2026-11" else None, at(6))
    assert found.actual_micro == 240 * EURO


def test_days_that_are_over_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Span] = []

    def counted(*given: object) -> Cost:
        asked.append(given[2])  # type: ignore[arg-type]
        return cost_of(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(budget_costs, "cost_of", counted)
    costs = BudgetCosts([node_budget()], book("2"))
    for day in (10, 11):
        (found,) = costs.reports(always, at(day, 12))
        assert found.actual_micro == ((day - 1) * 24 + 12) * 2 * EURO
    # On the 11th the days until the 7th are known: two days after its end nothing new comes of a day.
    assert asked == [Span(at(1), at(10, 12)), Span(at(8), at(11, 12))]


def test_a_new_month_begins_with_nothing() -> None:
    costs = BudgetCosts([node_budget()], book("2"))
    assert costs.reports(always, at(30, 23))[0].actual_micro == (29 * 24 + 23) * 2 * EURO
    (found,) = costs.reports(always, at(1, 1, month=12))
    assert found.actual_micro == 2 * EURO
