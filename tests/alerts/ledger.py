"""Alerts about budgets."""

from tests.alerts.promtool import Case, Scraped, Trial, rising, steady

BUDGET = {"grouping": "queue", "group": "research", "period": "month"}
START_S = 0
"""promtool's clock begins at 1970."""


def used(then: float) -> Scraped:
    """A budget of which 0.9 are used for ten minutes, and so much from then on."""
    series = 'gpufleet_ledger_budget_used_ratio{grouping="queue",group="research",period="month"}'
    return {series: steady(0.9, 10) + steady(then, 50)}


def checked(*then: float | None) -> Scraped:
    """The moment of the last check: each five minutes at first."""
    series = "gpufleet_ledger_budgets_checked_timestamp_seconds"
    return {series: [*rising(START_S, 60, 11), *then]}


TRIALS = [
    Trial(
        "BudgetSpent",
        "info",
        used(0.99),
        used(1.02),
        BUDGET,
        "the budget of queue research for its month is spent: 102%",
        14,
        15,
        12,
    ),
    Trial(
        "BudgetsNotChecked",
        "warning",
        checked(*rising(660, 60, 89)),
        checked(*steady(None, 89)),
        {},
        "budgets have not been checked for 31m 0s",
        40,
        41,
        30,
    ),
]
SPECIAL = [Case("a check that is late", "BudgetsNotChecked", checked(*steady(600, 20)), 30)]
