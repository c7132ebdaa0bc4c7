"""One life of the scheduler: wait to lead, fence off older leaders, list, decide, until leadership ends.

The order of a take-over is what keeps two leaders from ever serving one device: first the Lease, with its
transitions as our epoch; then proof that the server refuses Bindings of the epoch before; only then the
lists, which hold everything that an older leader managed to bind; then the first decisions, which complete
what it left half done. Losing the Lease ends everything at once: `run` raises, and its caller starts it anew,
with nothing remembered but what the API server holds.
"""

import asyncio
import contextlib
import logging
import random
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from gpufleet.cluster.claims.claim_tracker import ClaimTracker
from gpufleet.cluster.engine_events import EngineEvents
from gpufleet.cluster.engine_of_settings import engine_of
from gpufleet.cluster.engine_time import EngineTime
from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.dependencies import Dependencies
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.pod_reader import PodReader
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.queues.queue_conditions import WRONG
from gpufleet.cluster.queues.queue_figures import figures_of
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.change_queue import ChangeQueue
from gpufleet.cluster.watching.mirrors import FOLLOWED_BY_SCHEDULER, Cluster
from gpufleet.engine.scheduler import Engine
from gpufleet.eviction.evictions import Evictions
from gpufleet.kube import keys, resources
from gpufleet.kube.backoff import RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.clock import Clock
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import IN_FLIGHT_S, LAST_EPOCH, Lease, Terms
from gpufleet.kube.mirror import Pace
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.transport import Transport
from gpufleet.model.model_errors import InternalError
from gpufleet.progress.logged import DECIDING
from gpufleet.scheduler.bind_outcome import Outcome
from gpufleet.scheduler.binder import Binder, BindResult
from gpufleet.scheduler.claim_binder import ClaimBinder
from gpufleet.scheduler.claim_writer import ClaimWriter
from gpufleet.scheduler.condition_writer import ConditionWriter
from gpufleet.scheduler.data_wishes import DataWishes
from gpufleet.scheduler.dispatch import Dispatch, scheduled_note
from gpufleet.scheduler.eviction_planner import EvictionPlanner
from gpufleet.scheduler.fence import newest_epoch, wait_for_fence
from gpufleet.scheduler.grant_annotations import PluginDelivery
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.mig_demand import MigDemand
from gpufleet.scheduler.moved_places import MovedPlaces
from gpufleet.scheduler.node_pool_limits import NodePoolLimits
from gpufleet.scheduler.pod_nominations import PodNominations
from gpufleet.scheduler.provisioning.gang_requests import GangRequests
from gpufleet.scheduler.provisioning.known_requests import KnownRequests
from gpufleet.scheduler.queue_status_writer import QueueStatusWriter
from gpufleet.scheduler.queue_statuses import QueueStatuses
from gpufleet.scheduler.refreshing import Refreshing
from gpufleet.scheduler.reporting import Reporter
from gpufleet.scheduler.rounds import Record, Rounds
from gpufleet.scheduler.short_gangs import ShortGangs
from gpufleet.scheduler.shown_reasons import ShownReasons
from gpufleet.scheduler.status import Status
from gpufleet.scheduler.volume_binder import VolumeBinder
from gpufleet.scheduler.write_ahead import WriteAhead

LOG = logging.getLogger(__name__)

PAUSES = RetryLimits(first_s=0.1, longest_s=5.0)
"""However long the server was away, all is listed anew within seconds of its return."""

ABSENT_PAUSE_S = 5.0
"""The pause between two questions whether a kind that was not served is served now."""

Worker = Coroutine[Any, Any, None]


async def run(
    transport: Transport,
    clock: Clock,
    jitter: random.Random,
    settings: Settings,
    *,
    metrics: Metrics | None = None,
    status: Status | None = None,
    record: Record | None = None,
) -> None:
    """Lead when the Lease can be had, and schedule while leading.

    Does not return. Raises LeadershipLost when the Lease is lost, FenceMissingError where the
    admission policies are not installed, and InternalError for a bug of ours.
    """
    service = Service(transport, clock, jitter, settings, metrics or Metrics(), status or Status(), record)
    await service.run()


class Service:
    """The parts of one life, and the order in which they begin."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        jitter: random.Random,
        settings: Settings,
        metrics: Metrics,
        status: Status,
        record: Record | None,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.status = status
        self.record = record
        self.client = Client(transport, clock, jitter, timeout_s=settings.request_timeout_s)
        self.newest_counted = LAST_EPOCH
        times = settings.lease
        self.lease = Lease(
            self.client,
            settings.lease_name,
            namespace=settings.lease_namespace,
            identity=settings.identity,
            terms=Terms(times.duration_s, times.renew_deadline_s, times.retry_s),
            annotations={keys.VICTIMS: settings.victims},
        )

    async def run(self) -> None:
        """Lead, decide, and end with the reason."""
        with first_cause():
            async with asyncio.TaskGroup() as group:
                group.create_task(self.status.run(self.client.clock, self.metrics))
                group.create_task(self._live())

    async def _live(self) -> None:
        least_epoch = 1
        while True:
            epoch = await self.lease.acquire(least_epoch=least_epoch)
            LOG.info("leading", extra={"identity": self.settings.identity, "epoch": epoch})
            self.metrics.leader.set(1)
            self.metrics.epoch.set(epoch)
            try:
                with first_cause():
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self.lease.keep())
                        group.create_task(self._lead(epoch))
            except EpochUsedError as used:
                # The Lease was deleted and counts anew; grants of that number are out there already.
                least_epoch = await self._above(used.epoch)
            finally:
                self.metrics.leader.set(0)
                self.metrics.queues.clear()
                self.metrics.waiting.update(None)
                self.status.enter_standby()
                # Given back also after a failure, so that the next leader need not wait for the Lease to run
                # out.
                await self._release()

    async def _above(self, used: int) -> int:
        """The epoch after one that is in use; the first again after the last."""
        if used < LAST_EPOCH:
            return used + 1
        words = (
            "grants of the last epoch exist: epochs are counted anew when nothing of its leader is under way"
        )
        LOG.warning(words, extra={"epoch": used, "after_s": IN_FLIGHT_S})
        await self.client.clock.sleep(IN_FLIGHT_S)
        self.newest_counted = LAST_EPOCH - 1
        return 1

    async def _release(self) -> None:
        with contextlib.suppress(KubeError):
            await self.lease.release()

    async def _lead(self, epoch: int) -> None:
        if self.settings.require_fence:
            await wait_for_fence(self.client, self.settings.lease_namespace, epoch)
        change_queue = ChangeQueue(self.client.clock)
        pace = Pace(
            silence_limit_s=self.settings.silent_watch_s, pauses=PAUSES, absent_pause_s=ABSENT_PAUSE_S
        )
        cluster = Cluster(self.client, change_queue, FOLLOWED_BY_SCHEDULER, pace)
        self.status.listing(cluster)
        async with asyncio.TaskGroup() as group:
            group.create_task(cluster.run())
            await cluster.wait_listed()
            # After the list and before the first decision: a fence compares epochs, so ours must be above
            # every one that was used.
            used = newest_epoch(cluster.all(resources.PODS), self.newest_counted)
            if used >= epoch:
                raise EpochUsedError(used)
            rounds, workers = self._assemble(cluster, change_queue, epoch)
            self.status.deciding(rounds)
            for worker in workers:
                group.create_task(worker)
            # A cluster without any object would wake no round, and the first round would never come.
            change_queue.wake()
            await change_queue.wait(None)
            await rounds.take()
            LOG.info(DECIDING, extra={"epoch": epoch})
            await rounds.run()

    def _assemble(
        self, cluster: Cluster, change_queue: ChangeQueue, epoch: int
    ) -> tuple[Rounds, list[Worker]]:
        clock, metrics, settings = self.client.clock, self.metrics, self.settings
        dependencies = Dependencies()
        gangs = GangTracker(settings.gang_deadline_s, settings.stale_gang_s)
        reader = PodReader(cluster, dependencies, gangs)
        pods = PodTracker(settings.scheduler_name, reader, gangs)
        pods.holders.evict_memory_offenders = settings.evict_memory_offenders
        nodes = NodeTracker(cluster)
        engine_events = EngineEvents(cluster, change_queue, dependencies, nodes, pods, gangs, clock, metrics)
        engine_events.defragmentation = settings.defragmentation

        def tell(result: BindResult) -> None:  # Before the reporter: each of the two needs the other.
            if result.outcome is Outcome.BOUND:
                reporter.bound(result.task.pod, scheduled_note(result.task.pod, result.task.node))
            elif result.outcome is Outcome.NO_DEVICES:
                reporter.warns(result.task.pod, "DevicesNotGiven", result.words)
            engine_events.result(result.ended())

        claims = self._claim_binder(engine_events.claims)
        binder = self._binder(cluster, claims, tell)
        reporter = Reporter(
            self.client,
            metrics,
            instance=settings.identity,
            at_once=settings.reports_at_once,
            writes_under_way=lambda: binder.backlog + evictions.backlog,
            waiting_pod=cluster.waiting_pod,
        )
        time = EngineTime(clock)
        evictions = self._evictions(pods, epoch)
        conditions = ConditionWriter(self.client, cluster, may_write=self.lease.holds)
        engine = engine_of(settings)
        statuses = QueueStatuses(self.client, cluster, lambda: cluster.unreadable(resources.FLEET_QUEUES))
        pod_nominations = PodNominations(
            self.client, cluster, pods.waiting, engine_events.take_nominated, may_write=self.lease.holds
        )
        write_ahead = WriteAhead(
            self.client, statuses, pod_nominations, evictions, engine.kept_places, may_write=self.lease.holds
        )
        moved_places = MovedPlaces(conditions, evictions, clock)
        eviction_planner = EvictionPlanner(
            engine_events, evictions, reporter, conditions, time, metrics, write_ahead, moved_places
        )
        requests = self._gang_requests(cluster, gangs, reader, time)
        limits = NodePoolLimits(engine, cluster, pods)
        shown = ShownReasons(engine, pods, limits, requests, time.now_us).of
        told = (binder, reporter, conditions, eviction_planner)
        dispatch = Dispatch(engine_events, PluginDelivery(), *told, epoch, shown, requests.consumed_by)
        short_gangs = ShortGangs(engine, gangs, conditions)
        rounds = Rounds(
            engine, change_queue, engine_events, dispatch, short_gangs, time, metrics, self.record
        )

        def busy() -> bool:
            return binder.backlog > 0 or reporter.backlog > 0 or change_queue.has_changes

        mig_demand = MigDemand(
            settings.mig_demand, self.client, cluster, engine, pods, busy=busy, may_write=self.lease.holds
        )
        data_wishes = DataWishes(
            self.client, cluster, engine, pods, nodes, busy=busy, may_write=self.lease.holds
        )
        refreshing = Refreshing(engine, pods, reporter, clock, busy, shown)
        dispatch.after_binds = lambda: refreshing.soon(limits.asking_gangs())
        writer = self._queue_status_writer(cluster, reader, engine, statuses, write_ahead, busy)
        writers = (binder, claims, reporter, conditions, evictions, pod_nominations, write_ahead)
        workers = (*writers, refreshing, writer, mig_demand, data_wishes, requests)
        return rounds, [worker.run() for worker in workers]

    def _gang_requests(
        self, cluster: Cluster, gangs: GangTracker, reader: PodReader, time: EngineTime
    ) -> GangRequests:
        known = KnownRequests(cluster)
        return GangRequests(self.client, known, gangs, reader.queues, time.now_us, may_write=self.lease.holds)

    def _evictions(self, pods: PodTracker, epoch: int) -> Evictions:
        return Evictions(
            self.client,
            self.metrics,
            epoch=epoch,
            at_once=self.settings.evictions_at_once,
            may_write=self.lease.holds,
            ends=pods.ends,
        )

    def _claim_binder(self, tracker: ClaimTracker) -> ClaimBinder:
        client = self.client

        def known(namespace: str, name: str) -> ResourceClaimObject | None:
            return tracker.cluster.find(resources.RESOURCE_CLAIMS, name, namespace)

        return ClaimBinder(
            ClaimWriter(client, known, may_write=self.lease.holds),
            tracker,
            client.clock,
            share_id=lambda: str(uuid.UUID(int=client.jitter.getrandbits(128), version=4)),
            at_once=self.settings.binds_at_once,
        )

    def _binder(self, cluster: Cluster, claims: ClaimBinder, tell: Callable[[BindResult], None]) -> Binder:
        volumes = VolumeBinder(
            self.client,
            lambda namespace, name: cluster.find(resources.PERSISTENT_VOLUME_CLAIMS, name, namespace),
        )
        return Binder(
            self.client,
            volumes,
            claims,
            self.metrics,
            tell,
            at_once=self.settings.binds_at_once,
            may_write=self.lease.holds,
        )

    def _queue_status_writer(
        self,
        cluster: Cluster,
        reader: PodReader,
        engine: Engine,
        statuses: QueueStatuses,
        write_ahead: WriteAhead,
        busy: Callable[[], bool],
    ) -> QueueStatusWriter:
        return QueueStatusWriter(
            self.client,
            cluster,
            reader.queues,
            lambda: self.metrics.queues.update(figures_of(engine)),
            statuses.unreadable,
            statuses=statuses,
            busy=busy,
            may_write=self.lease.holds,
            troubles=lambda: (engine.queues_barred(WRONG), write_ahead.changes),
            instance=self.settings.identity,
        )


class EpochUsedError(InternalError):
    """Grants of our epoch, or a newer one, exist already."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        super().__init__(f"grants of epoch {epoch} exist already")


@contextlib.contextmanager
def first_cause() -> Iterator[None]:
    """The first failure, among several tasks that failed together, that is not a consequence."""
    try:
        yield
    except BaseExceptionGroup as group:
        causes = list(leaves(group))
        # Cancelled tasks may fail in their own way; a used epoch is the one cause that can be mended here.
        raise next((cause for cause in causes if isinstance(cause, EpochUsedError)), causes[0]) from group


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The failures themselves, however deep they are grouped."""
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from leaves(one)
        else:
            yield one
