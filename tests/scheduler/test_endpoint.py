"""The endpoint tells the truth about health, also while the loop is stuck."""

import contextlib
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gpufleet.daemon.http_server import Health, HttpLimits
from gpufleet.daemon.server_certificate import ServerCertificate
from gpufleet.scheduler.endpoint import Endpoint
from gpufleet.scheduler.metrics import Metrics
from tests.daemon.pem_files import client, issued, mount
from tests.waiting import until

WELL = Health(well=True)


class Checks:
    """Health that a test can set."""

    def __init__(self) -> None:
        self.alive = WELL
        self.ready = WELL


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def url(checks: Checks, metrics: Metrics) -> Iterator[str]:
    endpoint = Endpoint(metrics.registry, alive=lambda: checks.alive, ready=lambda: checks.ready)
    yield f"http://127.0.0.1:{endpoint.port}"
    endpoint.close()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own server
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_who_is_well_says_ok(url: str, path: str) -> None:
    assert get(url + path) == (200, "ok\n")


def test_who_is_not_alive_says_why(url: str, checks: Checks) -> None:
    checks.alive = Health(well=False, reasons=("the loop has not turned for 40 s",))
    assert get(url + "/healthz") == (503, "the loop has not turned for 40 s\n")
    assert get(url + "/readyz")[0] == 200


def test_who_is_not_ready_lists_every_reason(url: str, checks: Checks) -> None:
    checks.ready = Health(well=False, reasons=("pods: nothing heard", "nodes: nothing heard"))
    assert get(url + "/readyz") == (503, "pods: nothing heard\nnodes: nothing heard\n")


def test_metrics_are_served_under_their_names(url: str, metrics: Metrics) -> None:
    metrics.binds.labels("bound").inc(3)
    status, text = get(url + "/metrics")
    assert status == 200
    assert 'gpufleet_scheduler_binds_total{outcome="bound"} 3.0' in text


def test_what_was_not_measured_is_absent_and_what_did_not_happen_is_0(url: str) -> None:
    page = get(url + "/metrics")[1]
    assert "scheduler_pods{" not in page
    assert 'gpufleet_scheduler_binds_total{outcome="bound"} 0.0' in page


def test_another_path_is_answered_with_those_there_are(url: str) -> None:
    assert get(url + "/secrets") == (404, "there are /metrics, /health, /healthz, /livez and /readyz\n")


def test_a_header_without_end_is_refused(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 60_000)
        assert client.recv(13) == b"HTTP/1.1 431 "


def test_probes_are_answered_while_other_clients_are_stuck(checks: Checks, metrics: Metrics) -> None:
    endpoint = Endpoint(
        metrics.registry,
        alive=lambda: checks.alive,
        ready=lambda: checks.ready,
        limits=HttpLimits(connections=4),
    )
    with contextlib.ExitStack() as stack:
        stack.callback(endpoint.close)
        for _ in range(12):
            stuck = stack.enter_context(socket.create_connection(("127.0.0.1", endpoint.port), timeout=30))
            stuck.sendall(b"GET /metrics HT")
        assert get(f"http://127.0.0.1:{endpoint.port}/healthz") == (200, "ok\n")


def test_a_request_that_drips_is_ended(checks: Checks, metrics: Metrics) -> None:
    endpoint = Endpoint(
        metrics.registry,
        alive=lambda: checks.alive,
        ready=lambda: checks.ready,
        limits=HttpLimits(head_s=0.1),
    )
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as client:
        client.sendall(b"GET /metrics HT")
        assert client.recv(13) == b"HTTP/1.1 408 "
    endpoint.close()


def test_health_is_served_over_https(checks: Checks, metrics: Metrics, tmp_path: Path) -> None:
    endpoint = Endpoint(
        metrics.registry,
        alive=lambda: checks.alive,
        ready=lambda: checks.ready,
        certificate=ServerCertificate(*mount(tmp_path, issued())),
    )
    url = f"https://localhost:{endpoint.port}/healthz"
    with contextlib.closing(endpoint), urllib.request.urlopen(url, timeout=10, context=client()) as answer:
        assert answer.read() == b"ok\n"


def test_one_that_is_closed_before_it_began_listens_no_more(
    checks: Checks, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = Endpoint._serve

    def serve_late(endpoint: Endpoint) -> None:
        until(lambda: bool(cast("Any", endpoint._loop)._ready))
        serve(endpoint)

    monkeypatch.setattr(Endpoint, "_serve", serve_late)
    endpoint = Endpoint(metrics.registry, alive=lambda: checks.alive, ready=lambda: checks.ready)
    endpoint.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint.port), timeout=30)


def test_names_of_queues_hide_nothing(url: str, metrics: Metrics) -> None:
    metrics.binds.labels("a\x1b[2J\u202e\x9b").inc()
    status, text = get(url + "/metrics")
    assert status == 200
    assert 'outcome="a\\x1b[2J\\u202e\\x9b"' in text
