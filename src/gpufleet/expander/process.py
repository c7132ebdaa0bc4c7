"""The expander as a process: the cluster by watches, the gRPC server, probes and metrics, and signals.

It writes conditions of waiting pods alone. One replica answers: what is on its way is remembered in it.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import cast

import grpc
import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.scheduler_lease import who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.daemon.http_server import Accepted, Health, HttpServer, Page
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.listening import address_of
from gpufleet.daemon.metrics_page import metrics_page
from gpufleet.daemon.server_certificate import OWN_OPTIONS, ServerCertificate
from gpufleet.daemon.signals import live_until_signal
from gpufleet.expander.answering import Answering
from gpufleet.expander.decision_writer import WRITES_AT_ONCE, DecisionWriter
from gpufleet.expander.expander_record import ExpanderRecord
from gpufleet.expander.judgement import Seen
from gpufleet.expander.service import ExpanderService
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, check_choice, connect
from gpufleet.overview.readings.followed_picture import FollowedPicture
from gpufleet.plan.instance_types import Catalogue, catalogue_of
from gpufleet.whatif.course import Course

LOG = logging.getLogger(__name__)
CONNECTIONS = len(WATCHED) + 2 + WRITES_AT_ONCE
"""A watch of each kind, the scheduler's Lease, and writes about pods."""

REQUEST_LIMIT_S = 30.0
"""As other daemons wait for the API server."""


class ExpanderOptions(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet expander``."""

    kubeconfig: Path | None
    context: str
    namespace: str
    listen: str
    expander: str
    certificate: Path
    key: Path
    catalogue: Path | None
    scheduler_name: str
    log_level: str
    log_format: str | None


def run_process(options: ExpanderOptions) -> int:
    """Run until a signal comes; the exit code."""
    log_as_asked(options.log_level, options.log_format)
    # Read for their errors alone: bad options are told before a cluster is asked.
    address_of(options.listen, "--listen")
    address_of(options.expander, "--expander")
    credentials = credentials_of(options.certificate, options.key)
    catalogue = catalogue_of(options.catalogue)
    check_choice(ClusterChoice(options.kubeconfig, options.context))
    return asyncio.run(_live(options, credentials, catalogue))


def credentials_of(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """What handshakes are done with: the files as they are at each. Raises InputError for a bad pair."""
    pair = ServerCertificate(certificate, key, options=OWN_OPTIONS)
    in_use = pair.pem

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """The newest pair that can be used; None where that in use is the newest."""
        nonlocal in_use
        pair.context()
        if pair.pem == in_use:
            return None
        in_use = pair.pem
        return grpc.ssl_server_certificate_configuration([in_use])

    # The stubs do not know that None leaves the pair in use, as the documentation says.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", renewed)
    return grpc.dynamic_ssl_server_credentials(grpc.ssl_server_certificate_configuration([in_use]), fetch)


async def _live(options: ExpanderOptions, credentials: grpc.ServerCredentials, catalogue: Catalogue) -> int:
    choice = ClusterChoice(options.kubeconfig, options.context)
    async with connect(choice, connections=CONNECTIONS, timeout_s=REQUEST_LIMIT_S) as connection:
        parts = Expander(options, connection.client, credentials, catalogue)
        await live_until_signal(parts.run())
        LOG.info("stopped by a signal")
    return 0


class Expander:
    """All parts of the expander's process."""

    def __init__(
        self,
        options: ExpanderOptions,
        client: Client,
        credentials: grpc.ServerCredentials,
        catalogue: Catalogue,
    ) -> None:
        self._client = client
        self._settings = Settings(
            identity="expander", scheduler_name=options.scheduler_name, lease_namespace=options.namespace
        )
        self._picture = FollowedPicture(client)
        self._is_prepared = False
        self.record = ExpanderRecord()
        self.writer = DecisionWriter(client)
        self.service = ExpanderService(
            self.look, Answering(catalogue), self.record, options.expander, credentials, self.writer.add
        )
        host, port = address_of(options.listen, "--listen")
        self.server = HttpServer(
            self._own_metrics, alive=lambda: Health(well=True), ready=self.ready, address=host, port=port
        )

    async def run(self) -> None:
        """Follow and answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._picture.run())
            group.create_task(self.server.run())
            group.create_task(self._prepare())
            group.create_task(self.service.run())
            group.create_task(self.writer.run())

    async def look(self) -> Seen:
        """The cluster as it is now. Raises WorldError where it cannot be read."""
        picture, leading = await self._picture.now(), await who_leads(self._client, self._settings)
        return Seen(picture, leading.settings(self._settings), self._client.clock.now())

    def ready(self) -> Health:
        """Whether a question can be answered within the time that the autoscaler waits."""
        if self._is_prepared:
            return Health(well=True)
        return Health(well=False, reasons=("the cluster is not read, or the engine not prepared yet",))

    async def _prepare(self) -> None:
        """Have the engine judge the cluster once: where its kernels are not cached, that takes minutes."""
        seen = await self.look()
        facts = Facts(seen.picture.copied(), seen.settings, Moment(seen.at))
        await asyncio.to_thread(Course, facts, engine_time_us(seen.at), 0)
        self._is_prepared = True
        LOG.info("the expander is ready")

    def _own_metrics(self, _: Accepted) -> Page:
        return metrics_page(self.record.registry)
