"""A publisher writes what differs, also on a server that keeps a slice otherwise than it was sent."""

import asyncio
import random
from typing import Any

import msgspec

from gpufleet.agent.dra.slice_publisher import SlicePublisher
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.objects.resource_slices import ResourceSliceObject
from gpufleet.kube.transport import Request, Response, ResponseStream
from tests.agent.dra.claims import pools_of
from tests.agent.node_values import NODE, a_gpu, a_node


class ForgetfulServer:
    """An API server that drops the capacity of devices; ``writes`` counts what it was sent."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self.writes = 0

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The node, or the slice as it is kept."""
        del timeout_s
        if request.method == "GET":
            return Response(200, {}, msgspec.json.encode({"metadata": {"name": NODE, "uid": "uid-node"}}))
        assert request.body is not None
        self.writes += 1
        body = msgspec.json.decode(request.body)
        for device in body["spec"]["devices"]:
            del device["capacity"]
        self.slices[body["metadata"]["name"]] = body
        return Response(201, {}, msgspec.json.encode(body))

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch: what is tested here opens none, so one that is opened fails the test."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


def test_of_what_a_server_drops_only_the_newest_is_remembered() -> None:
    server = ForgetfulServer()
    publisher = SlicePublisher(Client(server, MachineClock(), random.Random(1)), NODE, Topic(None))

    async def settle(cards: int) -> None:
        (pool,) = pools_of(a_node(*(a_gpu(f"GPU-{number}") for number in range(cards))))
        there = [msgspec.convert(one, ResourceSliceObject) for one in server.slices.values()]
        await publisher.settle_pool(pool, there)

    for cards in (1, 2, 3, 2, 1):
        asyncio.run(settle(cards))
        before = server.writes
        asyncio.run(settle(cards))
        assert server.writes == before
        assert publisher.remembered == 1
