"""The metrics APIs as a process: watches, sources, the HTTPS server, KEDA's external scaler, and signals.

Any number of replicas answer side by side: none writes anything but Events, so none has to lead. A replica
that has not listed the cluster is not ready, and the API server does not ask it.
"""

import asyncio
import logging
import re
import ssl
import time
from pathlib import Path

import msgspec

from gpufleet.daemon.http_server import Accepted, Health, HttpLimits, HttpServer, Page
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.listening import address_of
from gpufleet.daemon.metrics_page import metrics_page
from gpufleet.daemon.server_certificate import ServerCertificate
from gpufleet.daemon.signals import live_until_signal
from gpufleet.files.regular import read_regular
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, check_choice, connect
from gpufleet.metrics.callers.reviews import Reviews
from gpufleet.metrics.catalogue import BY_NAME, ENGINE_NAMES, From
from gpufleet.metrics.cluster_objects import ClusterObjects
from gpufleet.metrics.external_scaler.scaler import ExternalScaler
from gpufleet.metrics.fleet_limit import FleetLimit
from gpufleet.metrics.metrics_api import MetricsApi
from gpufleet.metrics.served_values import ServedValues, ValueSource
from gpufleet.metrics.sources import queues
from gpufleet.metrics.sources.agents import Agents
from gpufleet.metrics.sources.engines import Engines
from gpufleet.metrics.sources.pages import HttpReader, Pages
from gpufleet.metrics.sources.prometheus_values import ANSWER_BYTES_MAX, ANSWER_S, PrometheusValues
from gpufleet.metrics.sources.queues import Queues
from gpufleet.model.model_errors import InputError
from gpufleet.usage.agent_use import NAMES as AGENT_NAMES
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.client import Prometheus

LOG = logging.getLogger(__name__)
CONNECTIONS = 16
"""Reviews of callers go side by side."""

REQUEST_LIMIT_S = 30.0
"""As other daemons wait for the API server."""

SILENT_AFTER_S = 150.0
"""A watch says something each minute; one that said nothing for so long shows an old cluster."""

LIMITS = HttpLimits(connections=256)
"""The API server keeps many connections: one for each request of HTTP/1.1 that is under way."""

PEM_BYTES_MAX = 1 << 20
"""As much as a Secret holds."""


class MetricsOptions(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet metrics``."""

    kubeconfig: Path | None
    context: str
    namespace: str
    listen: str
    metrics_certificate: Path
    metrics_key: Path
    external_scaler: str | None
    prometheus: Access | None
    scheduler_url: tuple[str, ...]
    pages_ca_file: Path | None
    agents_on_nodes: bool
    old_after: float
    log_level: str
    log_format: str | None


def run_process(options: MetricsOptions) -> int:
    """Run until a signal comes; the exit code."""
    log_as_asked(options.log_level, options.log_format)
    address_of(options.listen, "--listen")
    if options.external_scaler is not None:
        address_of(options.external_scaler, "--external-scaler")
    check_choice(ClusterChoice(options.kubeconfig, options.context))
    return asyncio.run(_live(options))


async def _live(options: MetricsOptions) -> int:
    choice = ClusterChoice(options.kubeconfig, options.context)
    async with connect(choice, connections=CONNECTIONS, timeout_s=REQUEST_LIMIT_S) as connection:
        parts = MetricsApis(options, connection.client)
        await live_until_signal(parts.run())
        parts.close()
        LOG.info("stopped by a signal")
    return 0


class MetricsApis:
    """All parts. Raises InputError for options that cannot be."""

    def __init__(self, options: MetricsOptions, client: Client) -> None:
        self._client = client
        self.objects = ClusterObjects(client)
        self._pages = Pages(AGENT_NAMES | queues.NAMES | ENGINE_NAMES, read=HttpReader(_authority(options)))
        self.values = ServedValues(
            BY_NAME,
            self.objects,
            self._sources(options),
            time.time,
            old_after_s=options.old_after,
            limits=FleetLimit(client, self.objects),
        )
        rights = Reviews(client)
        metrics_api = MetricsApi(self.values, rights, lambda: self.objects.front_proxy, client.clock.now)
        host, port = address_of(options.listen, "--listen")
        certificate = ServerCertificate(
            options.metrics_certificate, options.metrics_key, lambda: self.objects.front_proxy.authorities
        )
        self.server = HttpServer(
            self._own_metrics,
            alive=lambda: Health(well=True),
            ready=self.ready,
            address=host,
            port=port,
            certificate=certificate,
            limits=LIMITS,
            others=metrics_api.answer,
        )
        self._scaler = (
            None if options.external_scaler is None else ExternalScaler(self.values, options.external_scaler)
        )

    async def run(self) -> None:
        """Follow and answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in self.objects.mirrors:
                group.create_task(mirror.run())
            group.create_task(self.server.run())
            if self._scaler is not None:
                group.create_task(self._scaler.run())

    def close(self) -> None:
        """Wait for no page any more."""
        self._pages.close()

    def ready(self) -> Health:
        """Whether the cluster is known, and how the API server vouches for callers."""
        reasons = []
        for mirror in self.objects.mirrors:
            health = mirror.health()
            if not health.listed:
                reasons.append(f"{mirror.kind.plural}: not listed yet ({health.problem})")
            elif (health.heard_s_ago or 0.0) > SILENT_AFTER_S:
                reasons.append(f"{mirror.kind.plural}: nothing heard for {health.heard_s_ago:.0f} s")
        if self.objects.front_proxy.problem:
            reasons.append(self.objects.front_proxy.problem)
        return Health(well=not reasons, reasons=tuple(reasons))

    def _sources(self, options: MetricsOptions) -> dict[From, ValueSource]:
        scheme = "https" if options.pages_ca_file is not None else "http"
        place = {"namespace": options.namespace, "scheme": scheme}
        return {
            From.AGENT: Agents(self.objects, self._pages, **place, on_nodes=options.agents_on_nodes),
            From.ENGINE: Engines(self.objects, self._pages, _prometheus(options)),
            From.SCHEDULER: Queues(
                self.objects, self._pages, **place, urls=_checked_urls(options.scheduler_url)
            ),
        }

    def _own_metrics(self, _: Accepted) -> Page:
        return metrics_page(self.values.record.registry)


def _checked_urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    for one in urls:
        if not re.fullmatch(r"https?://[!-~]+", one):
            raise InputError(
                "not an address",
                field="--scheduler-url",
                value=one,
                expected="an address such as http://10.0.0.7:9401",
            )
    return tuple(one.rstrip("/") for one in urls)


def _prometheus(options: MetricsOptions) -> PrometheusValues | None:
    if options.prometheus is None:
        return None
    return PrometheusValues(Prometheus(options.prometheus, total_s=ANSWER_S, bytes_max=ANSWER_BYTES_MAX))


def _authority(options: MetricsOptions) -> str:
    path, expected = options.pages_ca_file, "certificates in PEM"
    if path is None:
        return ""
    try:
        text = read_regular(path, PEM_BYTES_MAX, field="--pages-ca-file").decode("ascii")
        # Read for its error alone: a bad file is told at the start, and not at the first page.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except OSError as error:
        problem = "holds no certificate" if isinstance(error, ssl.SSLError) else "cannot be read"
        raise InputError(problem, field="--pages-ca-file", where=str(path), expected=expected) from error
    except ValueError as error:
        raise InputError(
            "holds no certificate", field="--pages-ca-file", where=str(path), expected=expected
        ) from error
    return text
