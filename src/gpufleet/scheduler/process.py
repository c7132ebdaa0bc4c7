"""The scheduler as a process: logs, signals, endpoint, and one life of the service.

``cli.scheduler`` reads the flags; ``service`` does the work. SIGTERM and SIGINT give the Lease back, so
that the next leader need not wait for it to run out.
"""

import asyncio
import contextlib
import logging
import random
from pathlib import Path

import msgspec

from gpufleet import __version__
from gpufleet.cluster.settings import BY_PRIORITY, BY_QUEUES, LeaseTimes, Settings
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.listening import address_of
from gpufleet.daemon.server_certificate import certificate_of
from gpufleet.daemon.signals import end_on_signal
from gpufleet.engine.event import Event
from gpufleet.engine.event_log import header_line, step_line
from gpufleet.engine.instruction import AnyInstruction
from gpufleet.engine.policy import find_policy
from gpufleet.files.atomic_write import growing_file
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.connection import ClusterChoice, check_choice, connect
from gpufleet.kube.expiry import Expiry
from gpufleet.kube.expiry_watch import ExpiryWatch
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.lease import LeadershipLost, own_identity
from gpufleet.kube.transport import Transport
from gpufleet.scheduler import kernels
from gpufleet.scheduler.definitions_awaited import await_definitions
from gpufleet.scheduler.defragmentation_flags import rules_of
from gpufleet.scheduler.endpoint import Endpoint
from gpufleet.scheduler.garbage_collection import GarbageCollectorTuning
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.mig_demand_flags import demand_rules_of
from gpufleet.scheduler.rounds import Record
from gpufleet.scheduler.service import run
from gpufleet.scheduler.status import Status

LOG = logging.getLogger(__name__)
SPARE_CONNECTIONS = 32
"""Beside those for binds: one for each watch would do no harm if it were missing, but binds would wait."""


class ProcessOptions(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet scheduler``."""

    kubeconfig: Path | None
    context: str
    scheduler_name: str
    identity: str
    lease_namespace: str
    lease_seconds: int
    policy: str
    gang_deadline: float
    stale_gang_grace: float
    silent_watch: float
    binds_at_once: int
    fence: bool
    evict_memory_offenders: bool
    defragment_to_start: str | None
    defragment_every: str | None
    defragment_window: str | None
    defragment_moves_a_run: int
    defragment_moves_a_day: int
    defragment_gpu_minutes_a_day: int | None
    defragment_queue: tuple[str, ...]
    mig_on_demand: str | None
    mig_whole_after: str
    preempt_by_priority: bool
    listen: str
    metrics_certificate: Path | None
    metrics_key: Path | None
    event_log: Path | None
    log_level: str
    log_format: str | None


def run_process(options: ProcessOptions) -> int:
    """Run until leadership is lost or a signal comes; the exit code."""
    # For its error alone: an unknown policy is told before anything is opened.
    find_policy(options.policy)
    log_as_asked(options.log_level, options.log_format)
    host, port = address_of(options.listen, "--listen")
    # What was asked for wrongly is told before anything is served or compiled.
    settings_of(options)
    check_choice(ClusterChoice(options.kubeconfig, options.context))
    certificate = certificate_of(options.metrics_certificate, options.metrics_key)
    metrics, status = Metrics(), Status()
    endpoint = Endpoint(
        metrics.registry,
        alive=status.alive,
        ready=status.ready,
        address=host,
        port=port,
        certificate=certificate,
    )
    LOG.info("serving metrics and health", extra={"address": host, "port": endpoint.port})
    try:
        # Before the loop begins, because compilation holds its thread for a minute and more.
        kernels.prepare(options.policy)
        # After the kernels: what lives by now lives for good, and is set apart.
        GarbageCollectorTuning().watch()
        return asyncio.run(_live(options, metrics, status))
    finally:
        endpoint.close()


async def _live(options: ProcessOptions, metrics: Metrics, status: Status) -> int:
    settings = settings_of(options)
    choice = ClusterChoice(options.kubeconfig, options.context)
    async with contextlib.AsyncExitStack() as stack:
        connections = options.binds_at_once + SPARE_CONNECTIONS
        connection = await stack.enter_async_context(connect(choice, connections=connections))
        transport = connection.transport
        watching = asyncio.ensure_future(expiry_watch(transport, metrics).run())
        stack.callback(watching.cancel)
        record = None if options.event_log is None else _recorder(settings, options.event_log, stack)
        life = asyncio.ensure_future(_begin(transport, settings, metrics, status, record))
        end_on_signal(life)
        try:
            await life
        except LeadershipLost as lost:
            LOG.error("leadership is lost", extra={"problem": str(lost)})  # noqa: TRY400 - no bug, no trace
            return 3
        except asyncio.CancelledError:
            LOG.info("stopped by a signal")
    return 0


async def _begin(
    transport: Transport, settings: Settings, metrics: Metrics, status: Status, record: Record | None
) -> None:
    """The service, once the cluster's definitions fit."""
    clock, jitter = MachineClock(), random.Random()
    client = Client(transport, clock, jitter, timeout_s=settings.request_timeout_s)
    await await_definitions(client, status, metrics)
    await run(transport, clock, jitter, settings, metrics=metrics, status=status, record=record)


def expiry_watch(transport: HttpTransport, metrics: Metrics) -> ExpiryWatch:
    """Tells of credentials that end, in the log and as metrics."""
    watch = ExpiryWatch(transport.expiries, MachineClock())

    def show(known: tuple[Expiry, ...]) -> None:
        metrics.credential_expiry.clear()
        for one in known:
            metrics.credential_expiry.labels(one.credential).set(one.ends_s)

    watch.on_look = show
    return watch


def settings_of(options: ProcessOptions) -> Settings:
    """The service's settings; the times of the Lease keep kube-scheduler's proportions."""
    duration_s = options.lease_seconds
    times = LeaseTimes(duration_s, duration_s * 2 / 3, duration_s * 2 / 15)
    return Settings(
        identity=own_identity(options.identity),
        scheduler_name=options.scheduler_name,
        policy=options.policy,
        victims=BY_PRIORITY if options.preempt_by_priority else BY_QUEUES,
        lease_namespace=options.lease_namespace,
        lease=times,
        binds_at_once=options.binds_at_once,
        gang_deadline_s=options.gang_deadline,
        stale_gang_s=options.stale_gang_grace,
        silent_watch_s=options.silent_watch,
        require_fence=options.fence,
        evict_memory_offenders=options.evict_memory_offenders,
        defragmentation=rules_of(
            options.defragment_to_start,
            options.defragment_every,
            options.defragment_window,
            options.defragment_moves_a_run,
            options.defragment_moves_a_day,
            options.defragment_gpu_minutes_a_day,
            options.defragment_queue,
        ),
        mig_demand=demand_rules_of(options.mig_on_demand, options.mig_whole_after),
    )


def _recorder(settings: Settings, path: Path, stack: contextlib.AsyncExitStack) -> Record:
    """A function that appends each step to the event log."""
    append = stack.enter_context(growing_file(path))
    append(header_line(__version__, settings.policy, 0, settings.victims))

    def record(
        at_us: int, events: tuple[Event, ...], instructions: list[AnyInstruction], *, goes_on: bool
    ) -> None:
        append(step_line(at_us, events, instructions, goes_on=goes_on))

    return record
