"""``gpufleet web`` as a process: the connection, the server, signals, and the URL that is told."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from gpufleet import __version__
from gpufleet.cluster.settings import Settings
from gpufleet.daemon.http_server import Accepted, Health, HttpLimits, HttpServer, Page
from gpufleet.daemon.json_log import log_as_asked
from gpufleet.daemon.server_certificate import OWN_OPTIONS, ServerCertificate, certificate_of
from gpufleet.daemon.signals import live_until_signal
from gpufleet.files.atomic_write import atomic_write, check_target
from gpufleet.kube.connection import Connection, check_choice, connect
from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.overview.readings.prometheus_use import ANSWER_S, PrometheusUse
from gpufleet.overview.readings.readings import Readings, Scope
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.client import MOMENT_BYTES_MAX, Prometheus
from gpufleet.web.asking.process import AskingProcess
from gpufleet.web.details import Details
from gpufleet.web.firing_alerts import FiringAlerts
from gpufleet.web.fleet_state import EarlyChanges, FleetState
from gpufleet.web.fleet_use import FleetUse
from gpufleet.web.login.cluster_login import ClusterLogin
from gpufleet.web.login.hosts import loopback_hosts
from gpufleet.web.login.local_login import LocalLogin
from gpufleet.web.problems import Problems
from gpufleet.web.project_list import ProjectList
from gpufleet.web.request import Request, check
from gpufleet.web.routes import MANIFEST_BYTES_MAX, METHODS, STREAMS_MAX, Parts, Routes
from gpufleet.web.service import Service
from gpufleet.web.static_files import page_files

CONNECTIONS = 24
"""Watches have their own; reviews of rights and pages of agents are asked beside them."""

LIMITS = HttpLimits(
    connections=4 * STREAMS_MAX, head_bytes=32 * 1024, body_bytes=MANIFEST_BYTES_MAX, answer_s=150.0
)
"""A bearer token has some kilobytes, and a what-if on a large fleet takes a while."""

NO_METRICS = Page((b"there are no metrics of the page\n",))


def run_process(request: Request, tell: Callable[[str], None]) -> int:
    """Serve until a signal comes; ``tell`` gets the URL. Raises InputError and WorldError."""
    check(request)
    if request.url_file is not None:
        check_target(request.url_file, "--url-file")
    certificate = certificate_of(request.certificate, request.key, OWN_OPTIONS)
    log_as_asked(request.log_level, request.log_format)
    check_choice(request.cluster)
    try:
        return asyncio.run(_run(request, certificate, tell))
    except ExceptionGroup as group:
        # Parts that run side by side fail together; what a person can do stands in the first.
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from group


async def _run(request: Request, certificate: ServerCertificate | None, tell: Callable[[str], None]) -> int:
    listener = _listener(request)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(listener.close)
        connection = await stack.enter_async_context(connect(request.cluster, connections=CONNECTIONS))
        asking = AskingProcess(request.asked)
        stack.push_async_callback(asking.end)
        service = Service(_state(request, connection), asking)
        login, hosts, url = _login(request, service, listener)
        server = _server(request, service, login, hosts, listener, certificate)
        await live_until_signal(_live(server, service, request, lambda: tell(url), url))
    return 0


async def _live(
    server: HttpServer, service: Service, request: Request, tell: Callable[[], None], url: str
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        group.create_task(service.run())
        # The URL is told when the page can be opened.
        await server.listening.wait()
        if request.url_file is not None:
            with atomic_write(request.url_file, is_private=True) as file:
                file.write(f"{url}\n")
        tell()


def _state(request: Request, connection: Connection) -> FleetState:
    heard = EarlyChanges()
    source = None if request.prometheus is None else PrometheusUse(request.prometheus)
    scope = Scope(must_be_all=request.cluster_login, home=connection.namespace)
    settings: Settings = request.settings
    return FleetState(Readings(connection.client, settings, scope, source, heard.sink), heard)


def _listener(request: Request) -> socket.socket:
    family = socket.AF_INET6 if ":" in request.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A server that starts anew gets its port although connections of the one before still end.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((request.host, request.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot be listened on: {error.strerror}",
            field="--listen",
            value=f"{request.host}:{request.port}",
            expected="another port; port 0 takes a free one",
        ) from error
    return listener


def _login(
    request: Request, service: Service, listener: socket.socket
) -> tuple[LocalLogin | ClusterLogin, frozenset[str], str]:
    """The logins that are allowed, the names of the page, and the URL to open."""
    client = service.state.readings.client
    port: int = listener.getsockname()[1]
    scheme = "http" if request.certificate is None else "https"
    if request.cluster_login:
        hosts = frozenset(host.lower() for host in request.hosts)
        return ClusterLogin(client, service.state, request.proxy), hosts, f"{scheme}://{request.host}:{port}/"
    local = LocalLogin(client.clock, port, service.state.rights)
    return local, loopback_hosts(port), f"{scheme}://127.0.0.1:{port}/login?token={local.token}"


def _asked_now(access: Access) -> Prometheus:
    """The server that is asked what is so now."""
    return Prometheus(access, total_s=ANSWER_S, bytes_max=MOMENT_BYTES_MAX)


def _server(
    request: Request,
    service: Service,
    login: LocalLogin | ClusterLogin,
    hosts: frozenset[str],
    listener: socket.socket,
    certificate: ServerCertificate | None,
) -> HttpServer:
    state = service.state
    client = state.readings.client
    source = None if request.prometheus is None else _asked_now(request.prometheus)
    alerts = None if source is None else FiringAlerts(source)
    files = page_files()
    if not files:
        raise WorldError("the files of the page are missing: install gpufleet anew")
    routes = Routes(
        Parts(
            login,
            service.view_rows_for,
            service.source,
            Details(state, service.asking),
            service.asking,
            Problems(service.asking, client.clock, alerts),
            ProjectList(client),
            FleetUse(state, source),
            client.clock,
            files,
            hosts,
            __version__,
        )
    )

    def ready() -> Health:
        if service.is_whole:
            return Health(well=True)
        return Health(well=False, reasons=(state.readings.trouble() or "the cluster is being read",))

    def metrics(_: Accepted) -> Page:
        return NO_METRICS

    return HttpServer(
        metrics,
        alive=lambda: Health(well=True),
        ready=ready,
        listener=listener,
        certificate=certificate,
        limits=LIMITS,
        others=routes.answer,
        methods=METHODS,
    )
