"""What is asked of a running agent, and how long it takes."""

import asyncio
import contextlib
import http.client
import time
from collections.abc import Sequence

import msgspec

from bench.agent.arena import NODE, PORT, Running, plugin_calls
from gpufleet.agent.gpus.simulation_control import tell
from gpufleet.devices.simulated.orders import RaiseXid, Reset
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster

SCRAPES = 500
ALLOCATIONS = 500
PODS = "/api/v1/namespaces/default/pods"
XID = 95
XID_LIMIT_S = 30.0
CHURN_AT_ONCE = 10


class Cost(msgspec.Struct):
    """What one load cost; times in milliseconds."""

    resident_mib: float = 0.0
    idle_cpu_pct: float = 0.0
    page_kib: float = 0.0
    scrape_ms: list[float] = []
    prefer_ms: list[float] = []
    allocate_ms: list[float] = []
    xid_ms: list[float] = []
    churned_mib: float = 0.0
    peak_mib: float = 0.0


async def measure(cluster: LocalCluster, running: Running, churn: int, idle_s: float) -> Cost:
    """All trials on one agent, one after the other. ``churn`` is how many pods come and go."""
    cost = Cost()
    await asyncio.sleep(idle_s / 4)
    began_s, before_s = time.monotonic(), running.cpu_s()
    await asyncio.sleep(idle_s)
    cost.idle_cpu_pct = 100 * (running.cpu_s() - before_s) / (time.monotonic() - began_s)
    cost.resident_mib = running.resident_mib()
    cost.page_kib, cost.scrape_ms = await asyncio.to_thread(_scrapes)
    cost.prefer_ms, cost.allocate_ms = await _allocations(running)
    cost.xid_ms = await _xids(running)
    await asyncio.to_thread(_churn, cluster, churn)
    await asyncio.sleep(idle_s / 4)
    cost.churned_mib, cost.peak_mib = running.resident_mib(), running.peak_mib()
    return cost


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _scrapes() -> tuple[float, list[float]]:
    """Scrapes over one connection, as Prometheus keeps it; the page's size in KiB, and each time."""
    found, size = [], 0
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)) as connection:
        for _ in range(SCRAPES):
            began_s = time.perf_counter()
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            size = len(answer.read())
            found.append(1000 * (time.perf_counter() - began_s))
            if answer.status != 200:
                raise AssertionError(f"/metrics said {answer.status}")
            time.sleep(0.02)
    return size / 1024, found


async def _allocations(running: Running) -> tuple[list[float], list[float]]:
    """As the kubelet asks, over a connection that stays: which unit suits, then for that one."""
    resource, units = max(running.offered("Healthy").items(), key=lambda one: len(one[1]))
    preferred, allocated = [], []
    async with plugin_calls(running.kubelet, resource) as kubelet:
        for _ in range(ALLOCATIONS):
            began_s = time.perf_counter()
            chosen = await kubelet.prefer(units, 1)
            preferred.append(1000 * (time.perf_counter() - began_s))
            began_s = time.perf_counter()
            await kubelet.allocate(chosen)
            allocated.append(1000 * (time.perf_counter() - began_s))
    return preferred, allocated


async def _xids(running: Running) -> list[float]:
    """From an Xid in the driver to the word that reaches the kubelet; every card in turn."""
    found = []
    for index in range(8):
        before = _sick(running)
        began_s = time.perf_counter()
        await asyncio.to_thread(tell, running.state, RaiseXid(str(index), XID))
        while _sick(running) == before:
            if time.perf_counter() - began_s > XID_LIMIT_S:
                raise AssertionError(f"the kubelet heard nothing of an Xid within {XID_LIMIT_S:.0f} s")
            await asyncio.sleep(0.001)
        found.append(1000 * (time.perf_counter() - began_s))
    for index in range(8):
        await asyncio.to_thread(tell, running.state, Reset(str(index)))
    return found


def _sick(running: Running) -> int:
    """How many units the kubelet takes for sick."""
    return sum(len(units) for units in running.offered("Unhealthy").values())


def _churn(cluster: LocalCluster, pods: int) -> None:
    """Pods of this node come and go; none of them ever runs."""
    with cluster.api() as api:
        for number in range(pods + CHURN_AT_ONCE):
            if number < pods:
                api.call("POST", PODS, _pod(f"churn-{number}"))
                api.call("POST", f"{PODS}/churn-{number}/binding", _binding(f"churn-{number}"))
            if 0 <= number - CHURN_AT_ONCE < pods:
                gone = f"{PODS}/churn-{number - CHURN_AT_ONCE}"
                api.call("DELETE", gone, {"gracePeriodSeconds": 0})


def _pod(name: str) -> Object:
    limits = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "registry.example/train:1", "resources": {"limits": limits}}
    # A pod that asks for GPUs may not name its node, so it is bound as another scheduler would bind it.
    spec = {"schedulerName": "another", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _binding(name: str) -> Object:
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
