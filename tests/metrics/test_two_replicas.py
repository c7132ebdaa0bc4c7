"""Two replicas of a real ``gpufleet metrics``: the autoscaler goes on when one of them is killed.

The API server chooses among the endpoints of the Service, as it does with ``--enable-aggregator-routing``.
"""

import contextlib
import http.client
import re
import socket
import ssl
from pathlib import Path

import msgspec

from gpufleet.localkube.access.api import Api
from tests.lacking import lacking
from tests.metrics.running_apis import (
    EXTERNAL,
    Apis,
    autoscaler,
    available,
    deployment,
    page_pod,
    replicas,
    running_apis,
    scales_to,
    simulated_node,
)
from tests.metrics.test_autoscaling import OFTEN, QUEUE, external, gateway
from tests.usage.prometheus.server import free_port
from tests.waiting import until

ELSEWHERE = ("192.0.2.1", 9)
"""An address that documents use: nothing is sent there, but the way to it begins at an address of ours."""

TOLD = f"{EXTERNAL}/namespaces/default/{QUEUE}?labelSelector=app%3Dgateway"
QUESTIONS = 40
"""Enough that chance gives some to each of two."""

COUNTED = re.compile(r'^gpufleet_metrics_requests_total\{[^}]*code="200"[^}]*\} (\S+)$', re.MULTILINE)


def own_address() -> str:
    """An address of this machine that endpoints may have: a loopback address is refused there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        try:
            out.connect(ELSEWHERE)
        except OSError:
            lacking("this machine has no address but loopback")
        found: str = out.getsockname()[0]
        return found


def told(api: Api) -> str:
    """What an autoscaler would be told of the queue; empty while there is no answer."""
    status, body = api.request("GET", TOLD)
    items = msgspec.json.decode(body)["items"] if status == 200 else []
    return str(items[0]["value"]) if items else ""


def answers(apis: Apis, port: int) -> bool:
    """Whether there is a server at this port yet."""
    with contextlib.suppress(OSError):
        answered(apis, port)
        return True
    return False


def answered(apis: Apis, port: int) -> float:
    """How many questions the server at this port has answered with a value or a list."""
    context = ssl.create_default_context(cadata=apis.authority.identity.certificate.decode())
    context.check_hostname = False
    connection = http.client.HTTPSConnection(apis.address, port, timeout=20, context=context)
    try:
        connection.request("GET", "/metrics")
        return sum(map(float, COUNTED.findall(connection.getresponse().read().decode())))
    finally:
        connection.close()


def test_both_serve_and_the_autoscaler_goes_on_when_one_is_killed(tmp_path: Path) -> None:
    with (
        running_apis(tmp_path, OFTEN, address=own_address()) as apis,
        apis.cluster.api() as api,
    ):
        first, second = apis.port, free_port()
        apis.serve(port=second)
        until(lambda: answers(apis, second))
        apis.lists(api, second)
        simulated_node(api, "node-0")
        apis.pages.pages["/gateway"] = gateway(23)
        page_pod(api, "gateway", apis.pages, "/gateway", app="gateway")
        until(lambda: all(told(api) == "23" for _ in range(QUESTIONS)))

        before = {port: answered(apis, port) for port in (first, second)}
        for _ in range(QUESTIONS):
            assert told(api) == "23"
        assert all(answered(apis, port) > count for port, count in before.items())

        deployment(api, "served", 1, "node-0")
        autoscaler(api, "served", external(QUEUE, "5", app="gateway"))
        scales_to(api, "served", 5)

        killed = apis.servers.pop(0)
        killed.kill()
        killed.wait(20)
        # Its endpoint is still listed, as until the kubelet notices.
        apis.pages.pages["/gateway"] = gateway(8)
        scales_to(api, "served", 2)
        apis.lists(api, first, ready=False)
        until(lambda: all(told(api) == "8" for _ in range(QUESTIONS)))
        assert available(api)
        apis.pages.pages["/gateway"] = gateway(0)
        scales_to(api, "served", 0)
        assert replicas(api, "served") == 0
