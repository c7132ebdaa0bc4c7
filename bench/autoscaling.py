"""How soon a HorizontalPodAutoscaler acts on the first request that waits, from zero replicas.

A real control plane with the autoscaler's own period of fifteen seconds asks a real ``gpufleet metrics``,
which reads the gateway's page. The time from the change of that page to the first replica holds everything:
how old a value is when it is served, the autoscaler's period, and its writes. How old what vLLM says is when
it is served is measured beside it: its page says the time. ``bench.see`` publishes both.
"""

import contextlib
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.figures import Figure, figure
from gpufleet.localkube.access.api import Api
from gpufleet.model.quantity import NANO_PER_UNIT, parse_quantity
from tests.metrics.running_apis import (
    CUSTOM,
    Apis,
    asked,
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

AGE_S = 10.0
"""Target: with the autoscaler's period of fifteen seconds, a value is at most 25 s old."""

ASKED = 20
"""So often it is asked how old a value is, at moments that chance chooses."""

TICK_S = 0.05
"""So often vLLM's page says another time."""

WAITING = "vllm:num_requests_waiting"
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
    return [figure(name, max(taken_s), "s", "lower", ACTS_S), _age_of_vllm(apis, api)]


def _age_of_vllm(apis: Apis, api: Api) -> Figure:
    """How old vLLM's value is when it is told; the value is the time in milliseconds since the beginning."""
    began_s, ended = time.monotonic(), threading.Event()

    def passed_ms() -> int:
        return round((time.monotonic() - began_s) * 1000)

    def tell_time() -> None:
        while not ended.wait(TICK_S):
            apis.pages.pages["/vllm"] = f'{WAITING}{{model_name="a",engine="0"}} {passed_ms()}\n'

    apis.pages.pages["/vllm"] = f'{WAITING}{{model_name="a",engine="0"}} 0\n'
    page_pod(api, "vllm", apis.pages, "/vllm", app="vllm")
    path = f"{CUSTOM}/namespaces/default/pods/*/{WAITING}?labelSelector=app%3Dvllm"
    until(lambda: asked(api, path)[0] == 200 and bool(asked(api, path)[1]["items"]), WAIT_S)
    writer = threading.Thread(target=tell_time)
    writer.start()
    ages_s, chance = [], random.Random(1)
    try:
        for _ in range(ASKED):
            # As if autoscalers asked at any time.
            time.sleep(chance.uniform(0.1, 2.5))
            document = asked(api, path)[1]
            told_ms = parse_quantity(document["items"][0]["value"]).nano / NANO_PER_UNIT
            ages_s.append((passed_ms() - told_ms) / 1000)
    finally:
        ended.set()
        writer.join()
    return figure(
        f"metrics: age of vLLM's value when it is told, oldest of {ASKED}", max(ages_s), "s", "lower", AGE_S
    )


def _page(waiting: int) -> str:
    return f"{QUEUE} {waiting}\n"
