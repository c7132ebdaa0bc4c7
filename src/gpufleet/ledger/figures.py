"""What is measured of the ledger, for its page of metrics. A process that does not lead knows none of it."""

from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.versions import ObjectKind
from gpufleet.model.money import MICRO_UNITS

PREFIX = "gpufleet_ledger"


class MonthFigures(msgspec.Struct, frozen=True):
    """How many months there are, and what they hold."""

    open: int
    sealed: int
    size_bytes: int


class BudgetAmounts(msgspec.Struct, frozen=True):
    """What a budget is and what of it is spent, in millionths of its currency."""

    by: str
    name: str
    period: str
    currency: str
    amount_micro: int
    spent_micro: int


class BudgetFigures(msgspec.Struct, frozen=True):
    """The used part of each budget, by its grouping, name and period, how many queues are held, and when."""

    used: tuple[tuple[str, str, str, float], ...]
    queues_held: int
    checked_us: int
    amounts: tuple[BudgetAmounts, ...] = ()


class LedgerFigures(msgspec.Struct, frozen=True):
    """What is kept. A kind of which nothing is known yet is missing in ``known_until_us``."""

    observations: int
    known_until_us: Mapping[ObjectKind, int]
    unreadable: Mapping[ObjectKind, int]
    months: MonthFigures
    budgets: BudgetFigures | None = None


class LedgerMetrics(Collector):
    """Tells Prometheus what the ledger keeps. ``figures`` is None where this process does not lead."""

    def __init__(self, figures: Callable[[], LedgerFigures | None]) -> None:
        self._figures = figures
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        figures = self._figures()
        leads = 0 if figures is None else 1
        yield GaugeMetricFamily(f"{PREFIX}_leading", "1 for the process that keeps the ledger.", leads)
        if figures is None:
            return
        yield CounterMetricFamily(
            f"{PREFIX}_observations",
            "Observations that this process has written.",
            figures.observations,
        )
        until = GaugeMetricFamily(
            f"{PREFIX}_known_until_timestamp_seconds",
            "Until when every change of the objects of a kind is known.",
            labels=["kind"],
        )
        for kind, at_us in sorted(figures.known_until_us.items()):
            until.add_metric([kind], at_us / US_PER_S)
        yield until
        unreadable = GaugeMetricFamily(
            f"{PREFIX}_unreadable_objects",
            "Objects of a kind that cannot be read; while there are any, its changes are not known.",
            labels=["kind"],
        )
        for kind, objects in sorted(figures.unreadable.items()):
            unreadable.add_metric([kind], objects)
        yield unreadable
        months = GaugeMetricFamily(f"{PREFIX}_months", "Months that are kept.", labels=["state"])
        months.add_metric(["open"], figures.months.open)
        months.add_metric(["sealed"], figures.months.sealed)
        yield months
        yield GaugeMetricFamily(
            f"{PREFIX}_size_bytes",
            "What all months hold on disk.",
            figures.months.size_bytes,
        )
        if figures.budgets is not None:
            yield from _of_budgets(figures.budgets)


def _of_budgets(found: BudgetFigures) -> Iterator[Metric]:
    used = GaugeMetricFamily(
        f"{PREFIX}_budget_used_ratio",
        "The part of a budget that its period has cost so far.",
        labels=["grouping", "group", "period"],
    )
    for by, name, period, ratio in found.used:
        used.add_metric([by, name, period], ratio)
    yield used
    labels = ["grouping", "group", "period", "currency"]
    amount = GaugeMetricFamily(
        f"{PREFIX}_budget_amount", "A budget for its period, in its currency.", labels=labels
    )
    spent = GaugeMetricFamily(
        f"{PREFIX}_budget_spent_amount",
        "What the period of a budget has cost so far, in its currency.",
        labels=labels,
    )
    for one in found.amounts:
        values = [one.by, one.name, one.period, one.currency]
        amount.add_metric(values, one.amount_micro / MICRO_UNITS)
        spent.add_metric(values, one.spent_micro / MICRO_UNITS)
    yield amount
    yield spent
    yield GaugeMetricFamily(
        f"{PREFIX}_queues_held", "Queues whose new work waits, as a budget is spent.", found.queues_held
    )
    yield GaugeMetricFamily(
        f"{PREFIX}_budgets_checked_timestamp_seconds",
        "When budgets were checked last.",
        found.checked_us / US_PER_S,
    )
