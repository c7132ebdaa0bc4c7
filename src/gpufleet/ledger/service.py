"""The ledger at work: it leads, follows the cluster, and keeps what it hears in months.

Nothing is in memory alone for longer than a round, unless a database cannot be reached. What a process that
ends had heard since its last round is told to the next one by its lists, and the time between both is no
followed time: what no pod is known to have held then is unmeasured, not free.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost, Lease
from gpufleet.ledger.cluster_reading import cluster_of
from gpufleet.ledger.database.database_errors import DatabaseError
from gpufleet.ledger.figures import LedgerFigures, MonthFigures
from gpufleet.ledger.following import Follower
from gpufleet.ledger.hourly_use import HourlyUse
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.months import month_of
from gpufleet.ledger.object_versions import READERS
from gpufleet.ledger.open_months import MonthStore, OpenMonths
from gpufleet.ledger.spent_budgets import CHECK_EVERY_S, SpentBudgets
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.versions import Observation
from gpufleet.model.model_errors import InputError, WorldError

LOG = logging.getLogger(__name__)
LEASE_NAME = "gpufleet-ledger"

ROUND_S = 10.0
"""How long observations are gathered before they are written: a cost is told within five minutes."""

RETRY_S = 5.0
"""Before the cluster is asked again for what tells it from others."""

RIGHTS = "get of the namespace kube-system, as the chart gives it"
"""What the account of the ledger needs."""


class Ledger:
    """One process. ``run`` leads when it can, and returns never."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        store_of: Callable[[str], MonthStore],
        budgets: SpentBudgets | None = None,
        use: HourlyUse | None = None,
    ) -> None:
        """``store_of`` opens the place for the months of a cluster."""
        self.client = client
        self.lease = Lease(client, LEASE_NAME, namespace=namespace, identity=identity)
        self.leading: LedgerWriter | None = None
        self._store_of = store_of
        self._budgets = budgets
        self._use = use

    async def run(self) -> None:
        """Lead, and wait to lead again when the Lease is lost. Raises InputError and FileWriteError."""
        while True:
            epoch = await self.lease.acquire()
            LOG.info("leading", extra={"epoch": epoch})
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.lease.keep())
                    group.create_task(self._keep())
            except* LeadershipLost as lost:
                LOG.warning("leadership is lost", extra={"problem": str(lost.exceptions[0])})
            finally:
                self.leading = None
                # Also after a failure, so that the next leader need not wait until the Lease has run out.
                with contextlib.suppress(KubeError):
                    await self.lease.release()

    async def _keep(self) -> None:
        cluster, ahead_us = await self._cluster()
        # A database may take its time to answer, and the Lease has to be renewed meanwhile.
        store = await asyncio.to_thread(self._store_of, cluster)
        with contextlib.closing(store):
            months = await asyncio.to_thread(OpenMonths, store)
            writer = LedgerWriter(self.client, months, ahead_us, self._budgets, self._use)
            self.leading = writer
            await writer.run()

    async def _cluster(self) -> tuple[str, int]:
        """Which cluster this is, and by how much its server's clock is ahead of this one."""
        while True:
            try:
                cluster, at_us = await cluster_of(self.client)
            except KubeError as error:
                LOG.warning("the cluster does not say which it is", extra={"problem": str(error)})
                await self.client.clock.sleep(RETRY_S)
                continue
            if cluster is None:
                raise InputError("may not get the namespace kube-system", expected=RIGHTS)
            return cluster, at_us - _now_us(self.client)

    def figures(self) -> LedgerFigures | None:
        """What is kept; None where this process does not lead."""
        return None if self.leading is None else self.leading.figures()


class LedgerWriter:
    """What a leader follows and writes."""

    def __init__(
        self,
        client: Client,
        months: OpenMonths,
        ahead_us: int = 0,
        budgets: SpentBudgets | None = None,
        use: HourlyUse | None = None,
    ) -> None:
        self.months = months
        self._budgets = budgets
        self._use = use
        self._checked_us: int | None = None
        self._client = client
        self._ahead_us = ahead_us
        self._news = IntervalLog()
        self._added = 0
        self._figures: MonthFigures | None = None
        self.followers = [Follower(client, kind, self._take, self.now_us) for kind in READERS]

    def now_us(self) -> int:
        """The time by the server's clock, as far as it is known."""
        return _now_us(self._client) + self._ahead_us

    async def run(self) -> None:
        """Follow and write until cancelled. Raises InputError and WorldError."""
        # Before anything is followed: it may take a while, and a watch would wait.
        await asyncio.to_thread(self._write, self.now_us(), IntervalLog())
        async with asyncio.TaskGroup() as group:
            for follower in self.followers:
                group.create_task(follower.mirror.run())
            group.create_task(self._rounds())

    async def _rounds(self) -> None:
        while True:
            await self._client.clock.sleep(ROUND_S)
            try:
                await self.round()
            except DatabaseError as error:
                # What was heard stays in memory, and the next round writes it too.
                LOG.warning("nothing is written", extra={"problem": str(error)})
                continue
            if self._use is not None and self._use.is_due(self.now_us()):
                await self.measure(self._use)
            if self._budgets is not None and self._is_due():
                await self._check(self._budgets)

    def _is_due(self) -> bool:
        """Whether budgets are to be checked now: not before all that is there has been listed."""
        if not all(one.health().listed for one in self.followers):
            return False
        return self._checked_us is None or self.now_us() >= self._checked_us + CHECK_EVERY_S * US_PER_S

    async def _check(self, budgets: SpentBudgets) -> None:
        """Hold the queues whose budgets are spent. What fails is made again at the next check."""
        self._checked_us = now_us = self.now_us()
        try:
            # Between rounds, as the months may not change meanwhile.
            found = await asyncio.to_thread(budgets.check, self.months.log_of, now_us)
            await budgets.write(found, now_us)
        except (InputError, WorldError) as error:
            LOG.warning("budgets are not checked", extra={"problem": str(error)})

    async def measure(self, use: HourlyUse) -> None:
        """Add the measured use of hours that are over. What fails is made again later."""
        try:
            # Between rounds, as the months may not change meanwhile.
            found = await asyncio.to_thread(use.measure, self.months.log_of, self.now_us())
        except (InputError, WorldError) as error:
            LOG.warning("use is not measured", extra={"problem": str(error)})
            return
        # The next round writes it, with what was heard meanwhile.
        self._news.merge(found)

    async def round(self) -> None:
        """Write what was heard, and seal what is over."""
        now_us = self.now_us()
        for follower in self.followers:
            follower.mark()
        news, self._news = self._news, IntervalLog()
        await asyncio.to_thread(self._write, now_us, news)

    def _write(self, now_us: int, news: IntervalLog) -> None:
        # First, as this takes the news even where the store fails.
        self._added += self.months.add(news)
        month = month_of(now_us)
        if month not in self.months.open():
            self.months.begin(month)
        for sealed in self.months.seal(now_us):
            LOG.info("a month is sealed", extra={"month": sealed})
        store = self.months.store
        self._figures = MonthFigures(len(store.open_months()), len(store.sealed_months()), store.size_bytes())

    def figures(self) -> LedgerFigures | None:
        """What is kept since the last round; None before the first."""
        if self._figures is None:
            return None
        return LedgerFigures(
            observations=self._added,
            known_until_us={one.kind: one.known_until_us for one in self.followers if one.known_until_us},
            unreadable={one.kind: one.health().unreadable for one in self.followers},
            months=self._figures,
            budgets=None if self._budgets is None else self._budgets.figures(),
        )

    def _take(self, seen: Observation) -> None:
        self._news.take(seen)


def _now_us(client: Client) -> int:
    return int(client.clock.now().timestamp() * US_PER_S)
