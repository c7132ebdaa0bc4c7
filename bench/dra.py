"""Claims of devices: how fast pods with claims are placed, and how long the kubelet waits: `make bench-dra`.

Pods with claims are placed by gpufleet and by kube-scheduler (``dra_bursts``); devices are read and chosen
(``dra_devices``); claims are prepared by the agent, which is measured here.

The agent runs as a process of its own on eight simulated H100, cut into seven instances each. Half of them go
to claims, half to the device plugin. Claims are objects of a real API server; they are prepared and taken
back over the driver's socket, as the kubelet does it.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import grpc
import msgspec

from bench import dra_bursts, dra_devices
from bench.agent.arena import NODE, START_WAIT_S, Load, Running, an_agent, api_server
from bench.agent.trials import percentile
from bench.figures import Figure, figure, publish, write
from gpufleet.agent.dra.device_pools import pool_name
from gpufleet.agent.kubelet.kubelet_api import dra_plugin_pb2 as api
from gpufleet.cli.main import run_program
from gpufleet.cli.parameters import OneOf
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster

DRIVER = "gpu.nvidia.com"
SERVICE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
INSTANCES = ", ".join(f"{{profile: 1g.10gb, start: {start}}}" for start in range(7))
LOAD = Load(
    "8 x 7 instances, half of them for claims",
    f"gpus: [{{model: H100-80GB, count: 8, numaNodes: 2, mig: [{INSTANCES}]}}]\n",
    "version: v1\nflags: {migStrategy: mixed}\n",
    "0,1,2,3",
)
ROUNDS = 12
"""Each of 28 devices is prepared so often: enough calls for a 99th percentile."""


class Times(msgspec.Struct):
    """How long calls took, in milliseconds."""

    prepare_ms: list[float] = []
    again_ms: list[float] = []
    unprepare_ms: list[float] = []


def claims_of(api_client: Api, devices: list[str], turn: int) -> Iterator[api.Claim]:
    """A claim for each device, allocated as a scheduler would."""
    for device in devices:
        name = f"{device}-{turn}"
        exactly = {"deviceClassName": "mig.nvidia.com"}
        spec = {"devices": {"requests": [{"name": "mig", "exactly": exactly}]}}
        made: Object = api_client.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
        result = {"request": "mig", "driver": DRIVER, "pool": pool_name(NODE, DRIVER), "device": device}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
        api_client.call("PUT", f"{CLAIMS}/{name}/status", made)
        yield api.Claim(namespace="default", name=name, uid=made["metadata"]["uid"])


def devices_of(api_client: Api) -> list[str]:
    """The devices that the node lists, once it does."""
    limit_s = time.monotonic() + START_WAIT_S
    while True:
        found = api_client.call("GET", f"{RESOURCES}/resourceslices")["items"]
        names = [device["name"] for one in found for device in one["spec"].get("devices") or ()]
        if names or time.monotonic() > limit_s:
            return names
        time.sleep(0.1)


async def timed(channel: grpc.aio.Channel, method: str, request: Any, answer: Any) -> tuple[float, Any]:
    """How long a call took, and its answer for the one claim."""
    call = channel.unary_unary(
        f"{SERVICE}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    began_s = time.perf_counter()
    answered = await call(request, timeout=START_WAIT_S)
    took_ms = 1000 * (time.perf_counter() - began_s)
    (told,) = answered.claims.values()
    if told.error:
        raise RuntimeError(told.error)
    return took_ms, told


async def prepared(running: Running, cluster: LocalCluster) -> Times:
    """Prepare every device in turn, ask again, and take it back."""
    times = Times()
    socket = Path(running.kubelet_root / "plugins" / DRIVER / "dra.sock")
    with cluster.api() as api_client:
        devices = devices_of(api_client)
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            for claim in itertools.chain.from_iterable(
                claims_of(api_client, devices, turn) for turn in range(ROUNDS)
            ):
                ask = api.NodePrepareResourcesRequest(claims=[claim])
                for found in (times.prepare_ms, times.again_ms):
                    took_ms, _ = await timed(
                        channel, "NodePrepareResources", ask, api.NodePrepareResourcesResponse
                    )
                    found.append(took_ms)
                undo = api.NodeUnprepareResourcesRequest(claims=[claim])
                took_ms, _ = await timed(
                    channel, "NodeUnprepareResources", undo, api.NodeUnprepareResourcesResponse
                )
                times.unprepare_ms.append(took_ms)
    return times


async def prepared_by_agent(cluster: LocalCluster) -> list[Figure]:
    """What the kubelet waits for, and what the agent takes."""
    async with an_agent(cluster, LOAD) as running:
        before_s = running.cpu_s()
        times = await prepared(running, cluster)
        cpu_ms = 1000 * (running.cpu_s() - before_s) / len(times.prepare_ms)
        resident_mib, peak_mib = running.resident_mib(), running.peak_mib()
    return [
        figure("prepare p50", percentile(times.prepare_ms, 0.5), "ms", "lower"),
        figure("prepare p99", percentile(times.prepare_ms, 0.99), "ms", "lower", 50),
        figure("prepare of a prepared claim p99", percentile(times.again_ms, 0.99), "ms", "lower"),
        figure("take back p99", percentile(times.unprepare_ms, 0.99), "ms", "lower"),
        figure("agent's processor time a claim, all three calls", cpu_ms, "ms", "lower"),
        figure("resident memory, both deliveries", resident_mib, "MiB", "lower", 80),
        figure("most memory ever", peak_mib, "MiB", "lower"),
    ]


PARTS = ("agent", "devices", *dra_bursts.LOADS)


def measured(part: str, *, small: bool) -> Iterator[Figure]:
    """The figures of a part."""
    if part == "agent":
        with api_server() as cluster:
            yield from asyncio.run(prepared_by_agent(cluster))
    elif part == "devices":
        yield from dra_devices.measured()
    else:
        yield from dra_bursts.measured(part, small=small, say=lambda words: click.echo(words, err=True))


@click.command()
@click.option("--small", is_flag=True, help="Few nodes and pods: shows that all of it runs.")
@click.argument("parts", nargs=-1, type=OneOf(PARTS))
def main(small: bool, parts: tuple[str, ...]) -> None:
    """Measure PARTS: agent, devices, whole-cards, partitionable; all of them where none is named."""
    figures: list[Figure] = []
    for part in parts or PARTS:
        figures += measured(part, small=small)
        write("dra", figures)
    claims = f"prepare: {ROUNDS * 28} claims, one after the other; {LOAD.name}"
    publish("dra", figures, [claims] if "agent" in (parts or PARTS) else [])


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.dra"))
