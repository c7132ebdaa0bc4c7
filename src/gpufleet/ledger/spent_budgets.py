"""Budgets that hold new work: what the ledger writes into the status of queues whose budget is spent.

A hold is good for an hour and is written anew every five minutes while the budget is spent, and never beyond
the end of the budget's period. So a ledger that has ended holds nothing for longer, and one that is started
again goes on from what stands in the statuses. Prices and budgets are files that are read anew each time: a
larger budget counts within minutes.
"""

import datetime as dt
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from gpufleet.files.regular import MEBIBYTE, read_regular
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.fleet_queues import BudgetStatus, FleetQueue, budget_of
from gpufleet.ledger.budget_costs import EPOCH, BudgetCosts, LogOf
from gpufleet.ledger.budgets import Budget, BudgetReport, read_budgets
from gpufleet.ledger.daily_costs import date_of
from gpufleet.ledger.figures import BudgetAmounts, BudgetFigures
from gpufleet.ledger.price_files.recognised import book_of, read_prices
from gpufleet.ledger.stamps import DAY_US, US_PER_S
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import HUNDREDTHS, MICRO_UNITS, decimals, rounded
from gpufleet.model.phrases import listed

LOG = logging.getLogger(__name__)

CHECK_EVERY_S = 300.0
"""Costs are told within five minutes."""

HOLD_US = 3600 * US_PER_S
"""How long a hold is good for: twelve checks, so that a ledger may move to another node meanwhile."""

BUDGETS_MAX = 500
"""Each budget is a series of Prometheus."""

BUDGETS_BYTES_MAX = MEBIBYTE
"""A line has some fifty bytes."""

PRICES_BYTES_MAX = 256 * MEBIBYTE
"""The ledger has 1 GiB in all; the price list of a region has some hundred MiB."""

SPENT_LENGTH_MAX = 200
"""The definition of FleetQueue takes no longer words."""


Read = tuple[bytes, tuple[bytes, ...]]
"""The bytes of the budgets, and of each file of prices."""


class BudgetFiles(msgspec.Struct, frozen=True):
    """Where prices and budgets are written down."""

    prices: tuple[Path, ...]
    budgets: Path

    def read(self) -> Read:
        """The bytes of all of them. Raises InputError."""
        budgets = read_regular(self.budgets, BUDGETS_BYTES_MAX, field="--budgets")
        return budgets, tuple(read_regular(one, PRICES_BYTES_MAX, field="--prices") for one in self.prices)

    def costs_of(self, read: Read) -> BudgetCosts:
        """What works out what they say. Raises InputError for what cannot be meant."""
        written, prices = read
        try:
            lines = written.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise InputError("not text", where=str(self.budgets), expected="budgets") from error
        budgets = read_budgets(lines, str(self.budgets))
        if len(budgets) > BUDGETS_MAX:
            expected = f"at most {BUDGETS_MAX}, as each is a series of Prometheus"
            raise InputError("too many budgets", field="--budgets", value=len(budgets), expected=expected)
        named = zip(prices, self.prices, strict=True)
        book = book_of(read_prices(text, str(path)) for text, path in named)
        _check_currency(budgets, book.currency)
        return BudgetCosts(budgets, book)


class SpentBudgets:
    """Checks budgets, and writes which queues are held."""

    def __init__(self, client: Client, files: BudgetFiles) -> None:
        """Raises InputError for files that say nothing that can be used."""
        self._client = client
        self._files = files
        self._read = files.read()
        self._costs = files.costs_of(self._read)
        self._figures: BudgetFigures | None = None

    def figures(self) -> BudgetFigures | None:
        """What the last check found; None before the first."""
        return self._figures

    def check(self, log_of: LogOf, now_us: int) -> tuple[BudgetReport, ...]:
        """How each budget is doing, by the files as they are now. Raises InputError and WorldError."""
        read = self._files.read()
        if read != self._read:
            # Files that cannot be understood are told at each check, so they are not taken over.
            self._costs, self._read = self._files.costs_of(read), read
        return self._costs.reports(log_of, now_us)

    async def write(self, found: Sequence[BudgetReport], now_us: int) -> None:
        """Hold the queues of budgets that are spent, and no others. Raises KubeError."""
        wanted = holds(found, now_us)
        there = await self._queues()
        for name in sorted(wanted.keys() - there.keys()):
            LOG.warning("a budget holds a queue that is not there", extra={"queue": name})
        for name, queue in sorted(there.items()):
            status, present = wanted.get(name), budget_of(queue)
            if status != present:
                await self._write(name, status)
            if (status is None) != (present is None):
                words = "" if status is None else status.spent
                LOG.info("holds for budgets changed", extra={"queue": name, "spent": words})
        used = tuple((one.budget.by, one.budget.name, one.budget.period, _ratio(one)) for one in found)
        amounts = tuple(amounts_of(one) for one in found)
        self._figures = BudgetFigures(used, len(wanted.keys() & there.keys()), now_us, amounts)

    async def _queues(self) -> dict[str, FleetQueue]:
        found = {}
        async for page in self._client.list_pages(resources.FLEET_QUEUES):
            for raw in page.items or ():
                try:
                    queue = _QUEUE.decode(raw)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    # The scheduler tells what is wrong with it; nothing new of it is in force.
                    continue
                found[queue.metadata.name] = queue
        return found

    async def _write(self, name: str, status: BudgetStatus | None) -> None:
        body = msgspec.json.encode({"status": {"budget": status}})
        try:
            await self._client.patch(resources.FLEET_QUEUES, name, body, subresource="status")
        except KubeError as error:
            # Other queues are written all the same, and this one at the next check.
            LOG.warning("a hold is not written", extra={"queue": name, "problem": str(error)})


_QUEUE = msgspec.json.Decoder(FleetQueue)


def _check_currency(budgets: Iterable[Budget], currency: str) -> None:
    for one in budgets:
        if one.currency != currency:
            expected = f"{currency}, as prices are in"
            raise InputError(
                "a budget in another currency than prices",
                field="--budgets",
                value=one.currency,
                expected=expected,
            )


def holds(found: Iterable[BudgetReport], now_us: int) -> Mapping[str, BudgetStatus]:
    """What is to stand in the status of each queue; of several spent budgets that which ends last counts."""
    wanted: dict[str, BudgetReport] = {}
    for one in found:
        for queue in one.budget.holds if one.is_spent else ():
            known = wanted.get(queue)
            if known is None or one.until_day > known.until_day:
                wanted[queue] = one
    return {queue: _status(one, now_us) for queue, one in wanted.items()}


def _status(one: BudgetReport, now_us: int) -> BudgetStatus:
    until_us = min((one.until_day - EPOCH) * DAY_US, now_us + HOLD_US)
    name = listed((one.budget.name,))
    end = f", {_money(one.budget.amount_micro, one)} until {date_of(one.until_day)}"
    spent = f"{one.budget.by} {name}"[: SPENT_LENGTH_MAX - len(end)] + end
    return BudgetStatus(spent, _money(one.actual_micro, one), _time(now_us), _time(until_us))


def _money(amount_micro: int, one: BudgetReport) -> str:
    return f"{decimals(rounded(amount_micro * HUNDREDTHS, MICRO_UNITS))} {one.budget.currency}"


def _time(at_us: int) -> str:
    return whole_time(dt.datetime.fromtimestamp(at_us // US_PER_S, dt.UTC))


def amounts_of(one: BudgetReport) -> BudgetAmounts:
    """What a budget is and what of it is spent, for the page of metrics."""
    budget = one.budget
    return BudgetAmounts(
        budget.by, budget.name, budget.period, budget.currency, budget.amount_micro, one.actual_micro
    )


def _ratio(one: BudgetReport) -> float:
    return one.actual_micro / one.budget.amount_micro
