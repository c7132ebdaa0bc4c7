"""Makes the exporter and its server from the agent's settings: what is served, where, how it is labelled."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from gpufleet.agent.exporter.counters_file import BYTES_MAX, ChosenCounters, default_counters, read_counters
from gpufleet.agent.exporter.exporter import Exporter, Topics
from gpufleet.agent.exporter.exporter_errors import ExporterOptionError
from gpufleet.agent.exporter.options import ExporterOptions, pod_label_names
from gpufleet.agent.exporter.usage import PodOf
from gpufleet.agent.settings import AgentSettings, MetricsSettings
from gpufleet.daemon.http_server import Accepted, Health, HttpServer, Page
from gpufleet.daemon.listening import address_of
from gpufleet.daemon.server_certificate import certificate_of
from gpufleet.files.regular import read_regular
from gpufleet.kube.clock import Clock
from gpufleet.kube.expiry import Expiry

LOG = logging.getLogger(__name__)
HOSTNAME_LABELS: dict[str, Literal["Hostname", "hostname", ""]] = {
    "Hostname": "Hostname",
    "hostname": "hostname",
    "none": "",
}


def exporter(
    settings: MetricsSettings,
    topics: Topics,
    clock: Clock,
    pod_of: PodOf | None,
    stale_after_s: float,
    expiries: Callable[[], tuple[Expiry, ...]] = tuple,
    mig_steps: Callable[[], Mapping[str, tuple[int, float]]] = dict,
) -> Exporter:
    """The exporter. Raises InputError for options that cannot be."""
    pod_label_names(settings.pod_label)
    options = ExporterOptions(
        counters=_counters(settings),
        hostname_label=HOSTNAME_LABELS[settings.hostname_label],
        old_names=settings.old_metric_labels,
        pod_uid=settings.pod_uid_label,
        pod_labels=settings.pod_label,
        virtual_gpus=settings.virtual_gpus,
        replace_blanks=settings.replace_blanks,
        job_folder=settings.hpc_job_mapping,
        stale_after_s=stale_after_s,
    )
    return Exporter(topics, clock, options, pod_of=pod_of, expiries=expiries, mig_steps=mig_steps)


def server(
    settings: AgentSettings,
    page: Exporter,
    ready: Callable[[], tuple[str, ...]],
    renew: Callable[[], Awaitable[None]],
) -> HttpServer:
    """The server. It is alive while the loop turns; ``ready`` says what is not as it should be.

    ``renew`` has the GPUs read anew. Raises InputError for an address or a certificate that cannot be.
    """
    host, port = address_of(settings.metrics_address, "--metrics-address")
    certificate = certificate_of(settings.metrics_certificate, settings.metrics_key)

    def readiness() -> Health:
        reasons = ready()
        return Health(well=not reasons, reasons=reasons)

    def metrics(accepted: Accepted) -> Page:
        return page.page(accepted.gzip)

    async def renew_page() -> None:
        await renew()
        page.draw_anyway()

    return HttpServer(
        metrics,
        alive=lambda: Health(well=True),
        ready=readiness,
        address=host,
        port=port,
        certificate=certificate,
        renew=renew_page,
    )


def _counters(settings: MetricsSettings) -> ChosenCounters:
    path = settings.counters
    if path is None:
        return default_counters()
    try:
        text = read_regular(path, BYTES_MAX, field="--counters")
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        expected = "a file of counters in dcgm-exporter's CSV"
        raise ExporterOptionError(problem, field="--counters", value=str(path), expected=expected) from error
    chosen = read_counters(text, str(path))
    for notice in chosen.notices:
        LOG.warning("a counter is not served", extra={"problem": notice})
    return chosen
