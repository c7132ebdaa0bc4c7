"""The page of metrics of a daemon whose metrics are a registry of Prometheus' own client."""

from prometheus_client import CollectorRegistry, generate_latest

from gpufleet.daemon.http_server import Page

TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""What Prometheus reads."""


def metrics_page(registry: CollectorRegistry) -> Page:
    """All metrics as they are now."""
    return Page((generate_latest(registry),), TEXT)
