"""Which queues are held for which budget, until when, and that files are read anew."""

from pathlib import Path

import pytest
from prometheus_client import generate_latest

from gpufleet.kube.objects.fleet_queues import BudgetStatus
from gpufleet.ledger.budget_costs import BudgetCosts
from gpufleet.ledger.budgets import Budget, BudgetReport, read_budgets
from gpufleet.ledger.daily_costs import day_of
from gpufleet.ledger.figures import BudgetFigures, LedgerFigures, LedgerMetrics, MonthFigures
from gpufleet.ledger.spent_budgets import BudgetFiles, SpentBudgets, amounts_of, holds
from gpufleet.model.model_errors import InputError
from tests.ledger.test_budget_costs import always, at, book, never

PRICES = "unit,amount,currency,gpu_amount\nnode-hour,2,EUR,1\n"
BUDGETS = "by,name,period,amount,currency,holds\nnode,n,month,{},EUR,team;lab\n"
HALF_PAST_US = 30 * 60 * 1_000_000


def report(actual: int, *queues: str, until: str = "2026-12-01", name: str = "a") -> BudgetReport:
    budget = Budget("queue", name, "month", 800_000_000, "EUR", queues)
    return BudgetReport(budget, day_of("2026-11-01"), day_of(until), actual, None, None)


def test_a_queue_is_held_for_an_hour_once_its_budget_is_spent() -> None:
    found = holds([report(800_000_000, "team", "lab"), report(799_999_999, "other")], at(28, 10))
    spent = "queue a, 800.00 EUR until 2026-12-01"
    status = BudgetStatus(spent, "800.00 EUR", "2026-11-28T10:00:00Z", "2026-11-28T11:00:00Z")
    assert found == {"team": status, "lab": status}


def test_a_hold_ends_with_its_period() -> None:
    found = holds([report(900_000_000, "team")], at(30, 23) + HALF_PAST_US)
    assert found["team"].held_until == "2026-12-01T00:00:00Z"


def test_of_two_spent_budgets_the_one_that_ends_last_is_told() -> None:
    both = [report(900_000_000, "team", until="2027-01-01", name="b"), report(900_000_000, "team")]
    assert holds(both, at(28)) == holds(both[::-1], at(28))
    assert holds(both, at(28))["team"].spent == "queue b, 800.00 EUR until 2027-01-01"


def test_a_name_that_is_too_long_is_cut_and_its_end_is_there() -> None:
    spent = holds([report(900_000_000, "team", name="x" * 400)], at(28))["team"].spent
    assert len(spent) == 200
    assert spent.endswith(", 800.00 EUR until 2026-12-01")


def files(folder: Path, amount: str = "456", prices: str = PRICES) -> BudgetFiles:
    (folder / "prices.csv").write_text(prices, encoding="utf-8")
    (folder / "budgets.csv").write_text(BUDGETS.format(amount), encoding="utf-8")
    return BudgetFiles((folder / "prices.csv",), folder / "budgets.csv")


def test_a_budget_that_is_raised_counts_at_the_next_check(tmp_path: Path) -> None:
    """Nine days and twelve hours at 2 EUR an hour are 456 EUR."""
    budgets = SpentBudgets(None, files(tmp_path))  # type: ignore[arg-type]
    (found,) = budgets.check(always, at(10, 12))
    assert (found.is_spent, found.budget.holds) == (True, ("team", "lab"))
    files(tmp_path, amount="456.01")
    (found,) = budgets.check(always, at(10, 12))
    assert not found.is_spent


def test_what_is_spent_of_a_budget_is_on_the_page_of_metrics(tmp_path: Path) -> None:
    """Nine days and twelve hours at 2 EUR an hour, of 500 EUR."""
    (found,) = SpentBudgets(None, files(tmp_path, "500")).check(always, at(10, 12))  # type: ignore[arg-type]
    budgets = BudgetFigures((), 0, 0, (amounts_of(found),))
    figures = LedgerFigures(0, {}, {}, MonthFigures(1, 0, 0), budgets)
    page = generate_latest(LedgerMetrics(lambda: figures).registry).decode()
    labels = f'{{currency="EUR",group="{found.budget.name}",grouping="{found.budget.by}",period="month"}}'
    assert f"gpufleet_ledger_budget_amount{labels} 500.0" in page
    assert f"gpufleet_ledger_budget_spent_amount{labels} 456.0" in page


def test_files_that_become_bad_are_told_each_time_and_mended_files_count(tmp_path: Path) -> None:
    budgets = SpentBudgets(None, files(tmp_path))  # type: ignore[arg-type]
    files(tmp_path, amount="-1")
    for _ in range(2):
        with pytest.raises(InputError, match="amount"):
            budgets.check(always, at(10, 12))
    files(tmp_path)
    assert budgets.check(always, at(10, 12))[0].is_spent


@pytest.mark.parametrize(
    ("prices", "budgets", "words"),
    [
        (PRICES.replace("EUR", "USD"), BUDGETS.format(1), "another currency"),
        (PRICES, BUDGETS.format(1).replace("team", "Team"), "no queue's name"),
        (PRICES, BUDGETS.format(1) + "node,n,month,1,EUR,\n" * 500, "too many budgets"),
    ],
)
def test_files_that_cannot_be_meant_are_refused(
    tmp_path: Path, prices: str, budgets: str, words: str
) -> None:
    found = files(tmp_path, prices=prices)
    found.budgets.write_text(budgets, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        SpentBudgets(None, found)  # type: ignore[arg-type]


def test_a_table_without_the_column_holds_nothing() -> None:
    (found,) = read_budgets(["by,name,period,amount,currency", "queue,a,month,1,EUR"], "budgets.csv")
    assert found.holds == ()
    assert holds(BudgetCosts([found], book("2")).reports(never, at(28)), at(28)) == {}
