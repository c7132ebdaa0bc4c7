"""How the scheduler is doing, for /healthz, /readyz and the gauges.

Alive: the loop turns. Ready: it stands by, or it leads with watches that were heard lately. ``run``
looks once a second, inside the loop; the endpoint's thread only reads what was seen last. A kind that cannot
be listed (a right is missing, say) keeps everything waiting, so it is named here and once in the log.
"""

import logging
import time

from gpufleet.cluster.watching.mirrors import Cluster
from gpufleet.daemon.http_server import Health
from gpufleet.kube.clock import Clock
from gpufleet.kube.resources import Kind
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.rounds import Rounds
from gpufleet.scheduler.waiting_metrics import WaitingCount

LOG = logging.getLogger(__name__)
BEAT_S = 1.0
"""Gauges of the metrics are at most so old, and a loop that hangs is noticed as soon."""

STUCK_AFTER_S = 30.0
"""Far longer than any decision round takes: the probe then has the process restarted."""

WAITING_EVERY_S = 6.0
"""A look at all work that waits takes some 0.1 s with 100,000 pods, which is then a sixtieth of the time.

An autoscaler that asks every 15 s acts on figures that are at most 25 s old.
"""

STANDS_BY = Health(well=True)
"""A process that does not lead is ready: it can take over at any time."""


class Status:
    """What is known of the running service.

    ``silent_after_s`` is how old a view may be. ``rounds`` are those of this leadership, None before the
    first.
    """

    def __init__(self, *, silent_after_s: float = 120.0) -> None:
        self.silent_after_s = silent_after_s
        self._cluster: Cluster | None = None
        self.rounds: Rounds | None = None
        self._ready = STANDS_BY
        self._beat_at_s = time.monotonic()
        self._problems_logged: dict[str, str] = {}
        self._lists: dict[Kind, int] = {}
        self._waiting: WaitingCount | None = None
        self._waiting_due_s = 0.0

    def listing(self, cluster: Cluster) -> None:
        """We lead, and these mirrors are being filled."""
        self._cluster, self.rounds = cluster, None
        self._lists = {}
        self._ready = Health(well=False, reasons=("the cluster is still being listed",))

    def deciding(self, rounds: Rounds) -> None:
        """Everything was listed once; decisions begin."""
        self.rounds = rounds
        self._waiting = WaitingCount(rounds.engine_events)

    def enter_standby(self) -> None:
        """We do not lead."""
        self._cluster = self.rounds = self._waiting = None
        self._ready = STANDS_BY

    def wait_for(self, problem: str) -> None:
        """Nothing has begun, because of this problem."""
        self._ready = Health(well=False, reasons=(problem,))

    def alive(self) -> Health:
        """Whether the loop turns."""
        age_s = time.monotonic() - self._beat_at_s
        if age_s > STUCK_AFTER_S:
            return Health(well=False, reasons=(f"the loop has not turned for {age_s:.0f} s",))
        return Health(well=True)

    def ready(self) -> Health:
        """Whether what is decided rests on a fresh view."""
        return self._ready

    async def run(self, clock: Clock, metrics: Metrics) -> None:
        """Look every second until cancelled."""
        while True:
            # The machine's own clock and not the loop's: it is read by the probe's thread, also when the loop
            # hangs.
            self._beat_at_s = time.monotonic()
            if self._cluster is not None:
                self._look(self._cluster, metrics)
            if self.rounds is not None:
                engine_events = self.rounds.engine_events
                for place, count in engine_events.pods.counts().items():
                    metrics.pods.labels(place.value).set(count)
                foreign = tuple(engine_events.pods.holders.foreign())
                for holder, is_pod in (("pod", True), ("unknown", False)):
                    count = sum(one.gpus for one in foreign if one.is_pod is is_pod)
                    metrics.foreign_gpus.labels(holder).set(count)
                metrics.unreported_nodes.set(engine_events.nodes.unreported_count)
                self._look_at_waiting(self.rounds, clock, metrics)
            await clock.sleep(BEAT_S)

    def _look_at_waiting(self, rounds: Rounds, clock: Clock, metrics: Metrics) -> None:
        now_s = clock.monotonic_s()
        if self._waiting is None or now_s < self._waiting_due_s:
            return
        self._waiting_due_s = now_s + WAITING_EVERY_S
        causes = rounds.dispatch.reporter.reported_causes()
        figures = self._waiting.look(causes, rounds.engine.reservations(), clock.now().timestamp())
        metrics.waiting.update(figures)

    def _look(self, cluster: Cluster, metrics: Metrics) -> None:
        reasons = [] if self.rounds is not None else ["the cluster is still being listed"]
        for kind, health in cluster.health().items():
            name = kind.resource
            metrics.unreadable.labels(name).set(health.unreadable)
            # A kind that was listed once is old at worst, and its age below says so.
            if not health.listed and health.problem:
                reasons.append(f"{name}: cannot be listed ({health.problem})")
                self._tell(name, health.problem)
            self._count_lists(kind, health.lists, metrics)
            if health.heard_s_ago is None:
                continue
            metrics.watch_age_seconds.labels(name).set(health.heard_s_ago)
            if health.heard_s_ago > self.silent_after_s:
                reasons.append(f"{name}: nothing heard for {health.heard_s_ago:.0f} s ({health.problem})")
        kept = cluster.kept()
        for kind in cluster.lasting:
            metrics.kept_objects.labels(kind.resource).set(kept.get(kind, 0))
        self._ready = Health(well=not reasons, reasons=tuple(reasons))

    def _count_lists(self, kind: Kind, lists: int, metrics: Metrics) -> None:
        """Count each list of a leadership but its first."""
        # The first list of a leadership is always made, so it says nothing of watches that broke.
        known = self._lists.get(kind, 1)
        if lists > known:
            metrics.relists.labels(kind.resource).inc(lists - known)
            self._lists[kind] = lists

    def _tell(self, kind: str, problem: str) -> None:
        """Say in the log why nothing is decided, once for each reason."""
        if self._problems_logged.get(kind) != problem:
            self._problems_logged[kind] = problem
            LOG.warning("a kind cannot be listed", extra={"kind": kind, "problem": problem})
