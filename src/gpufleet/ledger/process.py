"""The ledger as a process: logs, probes, signals, and the connection; ``service`` does the work."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpufleet.daemon.http_server import Health, HttpServer
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.listening import address_of
from gpufleet.daemon.metrics_page import metrics_page
from gpufleet.daemon.signals import live_until_signal
from gpufleet.files.atomic_write import make_folder
from gpufleet.kube.connection import ClusterChoice, check_choice, connect
from gpufleet.kube.lease import own_identity
from gpufleet.ledger.figures import LedgerMetrics
from gpufleet.ledger.hourly_use import HourlyUse
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.open_months import MonthStore
from gpufleet.ledger.service import Ledger
from gpufleet.ledger.spent_budgets import BudgetFiles, SpentBudgets
from gpufleet.model.model_errors import InputError
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.client import Prometheus

LOG = logging.getLogger(__name__)
REQUEST_LIMIT_S = 30.0
"""As other daemons wait for the API server."""


class LedgerOptions(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet ledger``."""

    folder: Path | None
    database: str | None
    prices: tuple[Path, ...]
    budgets: Path | None
    kubeconfig: Path | None
    context: str
    namespace: str
    identity: str
    listen: str
    log_level: str
    log_format: str | None
    prometheus: Access | None = None


def run_process(options: LedgerOptions) -> int:
    """Run until a signal comes; the exit code. Raises InputError and WorldError."""
    log_as_asked(options.log_level, options.log_format)
    address_of(options.listen, "--listen")
    check_choice(ClusterChoice(options.kubeconfig, options.context))
    files = budget_files(options.prices, options.budgets)
    return asyncio.run(_live(options, store_of(options.folder, options.database), files))


def budget_files(prices: tuple[Path, ...], budgets: Path | None) -> BudgetFiles | None:
    """Where budgets and prices are; None where no budget holds work. Raises InputError for half of them."""
    if budgets is None:
        if prices:
            expected = "--budgets too, for budgets that hold work"
            raise InputError("is not all", field="--prices", value=str(prices[0]), expected=expected)
        return None
    files = BudgetFiles(prices, budgets)
    if not prices:
        expected = "--prices too, as budgets are of money"
        raise InputError("is not all", field="--budgets", value=str(budgets), expected=expected)
    # Before the cluster is asked: what is wrong with a file is told at once.
    files.costs_of(files.read())
    return files


def store_of(folder: Path | None, database: str | None) -> Callable[[str], MonthStore]:
    """What opens the place for the months of a cluster. Raises InputError and FileWriteError."""
    if folder is not None and database is not None:
        raise InputError(
            "two places for the months", field="--database", expected="--folder alone, or this alone"
        )
    if database is not None:
        # psycopg is loaded only where there is a database.
        from gpufleet.ledger.database.address import address_of as database_of
        from gpufleet.ledger.database.month_tables import MonthTables

        address = database_of(database, "--database")
        return lambda cluster: MonthTables(address, cluster)
    if folder is None:
        raise InputError("no place for the months", field="--folder", expected="--folder or --database")
    make_folder(folder)
    return lambda cluster: MonthFiles(folder, cluster)


async def _live(
    options: LedgerOptions, open_store: Callable[[str], MonthStore], files: BudgetFiles | None
) -> int:
    choice = ClusterChoice(options.kubeconfig, options.context)
    identity = own_identity(options.identity)
    async with connect(choice, timeout_s=REQUEST_LIMIT_S) as connection:
        budgets = None if files is None else SpentBudgets(connection.client, files)
        use = None if options.prometheus is None else HourlyUse(Prometheus(options.prometheus))
        ledger = Ledger(connection.client, options.namespace, identity, open_store, budgets, use)
        await live_until_signal(_serve(ledger, options))
        LOG.info("stopped by a signal")
    return 0


async def _serve(ledger: Ledger, options: LedgerOptions) -> None:
    host, port = address_of(options.listen, "--listen")
    metrics = LedgerMetrics(ledger.figures)
    server = HttpServer(
        lambda _: metrics_page(metrics.registry),
        alive=lambda: Health(well=True),
        ready=lambda: ready(ledger),
        address=host,
        port=port,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        group.create_task(ledger.run())


def ready(ledger: Ledger) -> Health:
    """Whether it stands by, or leads and knows the cluster."""
    writer = ledger.leading
    if writer is None:
        return Health(well=True)
    missing = tuple(
        f"{one.kind}: {one.health().problem}" for one in writer.followers if not one.health().listed
    )
    return Health(well=not missing, reasons=missing)
