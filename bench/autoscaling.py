"""How soon a HorizontalPodAutoscaler acts on the first request that waits, from zero replicas.

A real control plane with the autoscaler's own period of fifteen seconds asks a real ``gpufleet metrics``,
which reads the gateway's page. The time from the change of that page to the first replica holds everything:
how old a value is when it is served, the autoscaler's period, and its writes. ``bench.see`` publishes it.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.figures import Figure, figure
from gpufleet.localkube.access.api import Api
from tests.metrics.running_apis import (
    Apis,
    autoscaler,
    deployment,
    page_pod,
    replicas,
    running_apis,
    simulated_node,
)
from tests.waiting import until

ROUNDS = 3
"""The autoscaler's period begins at any moment of a round, so one round is a matter of chance."""

ACTS_S = 20.0
"""Target: the period of fifteen seconds, and what it takes to read, to decide and to write."""

WAIT_S = 120.0
"""Long enough for what goes wrong to be a figure, and no end without one."""

QUEUE = "inference_extension_flow_control_queue_size"


@contextlib.contextmanager
def started() -> Iterator[Callable[[], list[Figure]]]:
    """A service with an autoscaler runs; what is given measures."""
    with tempfile.TemporaryDirectory() as name, running_apis(Path(name)) as apis, apis.cluster.api() as api:
        simulated_node(api, "node-0")
        apis.pages.pages["/gateway"] = _page(0)
        page_pod(api, "gateway", apis.pages, "/gateway", app="gateway")
        deployment(api, "served", 1, "node-0")
        target = {"type": "AverageValue", "averageValue": "5"}
        metric = {"type": "External", "external": {"metric": {"name": QUEUE}, "target": target}}
        autoscaler(api, "served", metric)
        yield lambda: _figures(apis, api)


def _figures(apis: Apis, api: Api) -> list[Figure]:
    """The slowest round."""
    taken_s = []
    for _ in range(ROUNDS):
        until(lambda: replicas(api, "served") == 0, WAIT_S)
        apis.pages.pages["/gateway"] = _page(1)
        began_s = time.monotonic()
        until(lambda: replicas(api, "served") == 1, WAIT_S)
        taken_s.append(time.monotonic() - began_s)
        apis.pages.pages["/gateway"] = _page(0)
    name = "metrics: first waiting request to first replica, from zero"
    return [figure(name, max(taken_s), "s", "lower", ACTS_S)]


def _page(waiting: int) -> str:
    return f"{QUEUE} {waiting}\n"
