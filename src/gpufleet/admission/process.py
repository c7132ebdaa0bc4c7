"""The webhook as a process: certificates, namespaces, the HTTPS server, Events, and signals.

Any number of replicas answer side by side. A replica is ready when a handshake as the API server makes it
succeeds and the namespaces are known; until then, and whenever all of them are down, objects pass unjudged.
"""

import asyncio
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpufleet.admission.images import ImagePolicy, registries_of
from gpufleet.admission.runtime_class_watch import RuntimeClassWatch
from gpufleet.admission.webhook.answering import Answering
from gpufleet.admission.webhook.owner_events import OwnerEvents
from gpufleet.admission.webhook.record import AdmissionRecord
from gpufleet.admission.webhook.rotation import Rotation
from gpufleet.completion.additions import Completion, RuntimeClass, completion_of
from gpufleet.daemon.http_server import READING, Accepted, Health, HttpLimits, HttpServer, Page
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.listening import address_of
from gpufleet.daemon.metrics_page import metrics_page
from gpufleet.daemon.server_certificate import ServerCertificate
from gpufleet.daemon.signals import live_until_signal
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, check_choice, connect
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.objects.namespace import Namespace
from gpufleet.kube.resources import NAMESPACES

LOG = logging.getLogger(__name__)
CONNECTIONS = 4
REQUEST_LIMIT_S = 30.0
LIMITS = HttpLimits(connections=256, body_bytes=6 << 20, idle_s=120.0)
"""A review holds an object twice, which has at most 3 MiB; the API server keeps its connections."""

HANDSHAKE_EVERY_S = 10.0
"""As often as a kubelet asks whether a program lives."""


class WebhookOptions(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet admission serve``."""

    kubeconfig: Path | None
    context: str
    namespace: str
    listen: str
    service: str
    name: str
    scheduler_name: str
    runtime_class: str
    shared_memory: bool
    pool_taints: tuple[str, ...]
    left_out: tuple[str, ...]
    registries: tuple[str, ...]
    no_digests: bool
    log_level: str
    log_format: str | None


def run_process(options: WebhookOptions) -> int:
    """Run until a signal comes; the exit code."""
    log_as_asked(options.log_level, options.log_format)
    address_of(options.listen, "--listen")
    completion_now(options, None)
    registries_of(options.registries)
    check_choice(ClusterChoice(options.kubeconfig, options.context))
    return asyncio.run(_live(options))


def completion_now(options: WebhookOptions, runtime_class: RuntimeClass | None) -> Completion:
    """What pods are given, with the class as the cluster has it. Raises InputError for bad options."""
    return completion_of(
        options.scheduler_name,
        options.left_out,
        options.pool_taints,
        runtime_class,
        shared_memory=options.shared_memory,
    )


async def _live(options: WebhookOptions) -> int:
    choice = ClusterChoice(options.kubeconfig, options.context)
    # A folder that this user alone may enter, for the key.
    with tempfile.TemporaryDirectory(prefix="gpufleet-admission-") as folder:
        async with connect(choice, connections=CONNECTIONS, timeout_s=REQUEST_LIMIT_S) as connection:
            await live_until_signal(_serve(options, connection.client, Path(folder)))
            LOG.info("stopped by a signal")
    return 0


async def _serve(options: WebhookOptions, client: Client, folder: Path) -> None:
    host = f"{options.service}.{options.namespace}.svc"
    rotation = Rotation(client, options.namespace, options.name, (host, f"{host}.cluster.local"), folder)
    await rotation.first()
    webhook = Webhook(options, client, rotation)
    await webhook.run()


class Webhook:
    """All parts, once there is a certificate to show."""

    def __init__(self, options: WebhookOptions, client: Client, rotation: Rotation) -> None:
        self._rotation = rotation
        self._namespaces: Mirror[Namespace] = Mirror(
            client, NAMESPACES, msgspec.json.Decoder(Namespace), _ignored
        )
        self._handshake = "no handshake was tried yet"
        self._record = AdmissionRecord(lambda: rotation.ends_at_s)
        self._events = OwnerEvents(client)
        self._options = options
        self._runtime_class = RuntimeClassWatch(client, options.runtime_class)
        now = client.clock.now
        images = ImagePolicy(registries_of(options.registries), digests=not options.no_digests)
        answering = Answering(self._record, self._annotations, now, self._completion, images, self._events)
        host, port = address_of(options.listen, "--listen")
        self.server = HttpServer(
            self._own_metrics,
            alive=lambda: Health(well=True),
            ready=self.ready,
            address=host,
            port=port,
            certificate=ServerCertificate(rotation.certificate, rotation.key),
            limits=LIMITS,
            others=answering.answer,
            methods=(*READING, "POST"),
        )

    async def run(self) -> None:
        """Answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._namespaces.run())
            group.create_task(self._runtime_class.run())
            group.create_task(self._rotation.run())
            group.create_task(self._events.run())
            group.create_task(self.server.run())
            group.create_task(self._shake_hands())

    def ready(self) -> Health:
        """Whether the API server can speak to this replica, and namespaces are known."""
        reasons = [one for one in (self._handshake, *self.server.problems()) if one]
        if not self._namespaces.health().listed:
            reasons.append("the namespaces are not listed yet")
        if not self._runtime_class.is_known():
            reasons.append("the RuntimeClasses are not listed yet")
        return Health(well=not reasons, reasons=tuple(reasons))

    async def _shake_hands(self) -> None:
        await self.server.listening.wait()
        while True:
            self._handshake = await self._rotation.handshake(self.server.port)
            await asyncio.sleep(HANDSHAKE_EVERY_S if not self._handshake else 1.0)

    def _completion(self) -> Completion:
        return completion_now(self._options, self._runtime_class.found())

    def _annotations(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get(namespace)
        return {} if found is None else found.metadata.annotations

    def _own_metrics(self, _: Accepted) -> Page:
        return metrics_page(self._record.registry)


def _ignored(_: object) -> None:
    """The mirror's own copy is all that is needed."""
