"""The operator as a process: logs, probes, signals, and the connection; ``service`` does the work."""

import asyncio
import logging
from pathlib import Path

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.daemon.http_server import Health, HttpServer
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.listening import address_of
from gpufleet.daemon.metrics_page import metrics_page
from gpufleet.daemon.signals import live_until_signal
from gpufleet.drain.planning_process import PlanningProcess
from gpufleet.kube import keys
from gpufleet.kube.connection import ClusterChoice, check_choice, connect
from gpufleet.kube.lease import own_identity
from gpufleet.operator.figures import OperatorMetrics
from gpufleet.operator.parking.hub_sessions import JupyterHub
from gpufleet.operator.projects.project_controller import PROJECTS_AT_ONCE
from gpufleet.operator.service import WRITES_AT_ONCE, Operator
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.client import Prometheus, Source

LOG = logging.getLogger(__name__)
CONNECTIONS = WRITES_AT_ONCE + PROJECTS_AT_ONCE + 4
"""Writes side by side, and beside them the Lease, lists and statuses."""

REQUEST_LIMIT_S = 30.0
"""As other daemons wait for the API server."""

PROMETHEUS_LIMIT_S = 30.0
"""For one answer of Prometheus: a round of parking comes every minute."""


class OperatorOptions(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet operator``."""

    kubeconfig: Path | None
    context: str
    namespace: str
    identity: str
    listen: str
    log_level: str
    log_format: str | None
    prometheus: Access | None = None
    jupyterhub: JupyterHub | None = None
    projects: bool = False
    services: bool = False
    scheduler_name: str = keys.SCHEDULER_NAME


def run_process(options: OperatorOptions) -> int:
    """Run until a signal comes; the exit code."""
    log_as_asked(options.log_level, options.log_format)
    address_of(options.listen, "--listen")
    check_choice(ClusterChoice(options.kubeconfig, options.context))
    return asyncio.run(_live(options, _measurements(options)))


def _measurements(options: OperatorOptions) -> Source | None:
    """The Prometheus that is named, None without one."""
    if options.prometheus is None:
        return None
    return Prometheus(options.prometheus, total_s=PROMETHEUS_LIMIT_S)


async def _live(options: OperatorOptions, measurements: Source | None) -> int:
    choice = ClusterChoice(options.kubeconfig, options.context)
    identity = own_identity(options.identity)
    async with connect(choice, connections=CONNECTIONS, timeout_s=REQUEST_LIMIT_S) as connection:
        # The scheduler is installed beside the operator, with its Lease in the same namespace.
        settings = Settings(
            identity="operator", scheduler_name=options.scheduler_name, lease_namespace=options.namespace
        )
        operator = Operator(
            connection.client,
            options.namespace,
            identity,
            measurements,
            options.jupyterhub,
            keeps_projects=options.projects,
            serves=options.services,
            scheduler_name=options.scheduler_name,
            planner=PlanningProcess(choice, settings),
        )
        await live_until_signal(_serve(operator, options))
        LOG.info("stopped by a signal")
    return 0


async def _serve(operator: Operator, options: OperatorOptions) -> None:
    host, port = address_of(options.listen, "--listen")
    metrics = OperatorMetrics(operator.figures, operator.client.clock.now)
    server = HttpServer(
        lambda _: metrics_page(metrics.registry),
        alive=lambda: Health(well=True),
        ready=lambda: ready(operator),
        address=host,
        port=port,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        group.create_task(operator.run())


def ready(operator: Operator) -> Health:
    """Whether it stands by, or leads and knows the cluster."""
    if operator.skew:
        return Health(well=False, reasons=(operator.skew,))
    following = operator.leading
    if following is None:
        return Health(well=True)
    missing = tuple(
        f"{mirror.kind.plural}: {mirror.health().problem}"
        for mirror in following.mirrors
        if not mirror.health().listed
    )
    return Health(well=not missing, reasons=missing)
