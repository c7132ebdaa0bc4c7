"""Slices on a real API server come, change and go as the cards do, and no slice of others is touched."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.agent.dra.device_pools import DEVICES_MOST, DevicePool, device_pools
from gpufleet.agent.dra.slice_publisher import Pools, SlicePublisher
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.health import Verdict
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kube_errors import KubeError, TransportError
from gpufleet.kube.listing import Selection
from gpufleet.kube.objects.resource_slices import ResourceSliceObject
from gpufleet.kube.resources import NODES, RESOURCE_SLICES
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport
from gpufleet.localkube.cluster import LocalCluster
from tests.agent.dra.test_offered_devices import a_mixed_node
from tests.agent.node_values import a_gpu, a_node
from tests.kube.codec.test_corpus import FILES
from tests.kube.codec.test_corpus import story as story_of
from tests.localkube.cluster import cluster  # noqa: F401  a fixture

NODE = "dra-node"
OTHER_NODE = "dra-other-node"
WAIT_S = 30.0
DECODER = msgspec.json.Decoder(ResourceSliceObject)
Story = Callable[["Server"], Awaitable[None]]


class Killing:
    """A way to the server that breaks for good after so many writes."""

    def __init__(self, inner: Transport, writes_left: int) -> None:
        self.inner = inner
        self.writes_left = writes_left

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass it on, while writes are left."""
        if request.method != "GET":
            if not self.writes_left:
                raise TransportError("killed", reached=False)
            self.writes_left -= 1
        return await self.inner.call(request, timeout_s=timeout_s)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Nothing: the way beneath is used on."""


class Without:
    """A way to a server that drops these fields of slices and devices, as one does whose gate is closed."""

    def __init__(self, inner: Transport, *fields: str) -> None:
        self.inner = inner
        self.fields = fields

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass it on without the fields."""
        if request.method in {"POST", "PUT"}:
            body = msgspec.json.decode(request.body)
            for one in (body["spec"], *body["spec"].get("devices", ())):
                for field in self.fields:
                    one.pop(field, None)
            request = msgspec.structs.replace(request, body=msgspec.json.encode(body))
        return await self.inner.call(request, timeout_s=timeout_s)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Nothing: the way beneath is used on."""


class Server:
    """The real server, with a node, and a publisher on it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.client = Client(transport, MachineClock(), random.Random(1))
        self.pools: Topic[Pools] = Topic(None)
        self.publisher = SlicePublisher(self.client, NODE, self.pools)

    def offer(self, *cards: Gpu, node: NodeGpus | None = None) -> None:
        """These are the node's cards from now on."""
        self.pools.publish(pools_of(node or a_node(*cards)))

    async def settle(self) -> list[str]:
        """One look, and its writes."""
        return await self.publisher.settle()

    async def slices(self, node: str = NODE) -> list[ResourceSliceObject]:
        """What there is of a node, by name."""
        found: list[ResourceSliceObject] = []
        async for page in self.client.list_pages(
            RESOURCE_SLICES, selection=Selection(fields=f"spec.nodeName={node}")
        ):
            found += [DECODER.decode(item) for item in page.items or ()]
        return sorted(found, key=lambda one: one.metadata.name)

    async def write_as_another(self, name: str, driver: str, pool: str, node: str = NODE) -> None:
        """A slice of another program."""
        spec = {
            "driver": driver,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": "gpu-0"}],
        }
        await self.client.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec}, name=name)


def pools_of(node: NodeGpus, *, cuts: bool = False) -> tuple[DevicePool, ...]:
    here = msgspec.structs.replace(node, node=NODE)
    return device_pools(here, lambda _: True, cuts=cuts)


def card(number: int, **more: Any) -> Gpu:
    return a_gpu(f"GPU-{number}", minor=number, **more)


@contextlib.asynccontextmanager
async def a_server(running: LocalCluster) -> AsyncIterator[Server]:
    transport = HttpTransport(find_access(kubeconfig=running.kubeconfig, environment={}))
    server = Server(transport)
    try:
        for name in (NODE, OTHER_NODE):
            await server.client.create(NODES, {"metadata": {"name": name}}, name=name)
        yield server
    finally:
        for name in (NODE, OTHER_NODE):
            for one in await server.slices(name):
                with contextlib.suppress(NotFound):
                    await server.client.delete(RESOURCE_SLICES, one.metadata.name)
            with contextlib.suppress(NotFound):
                await server.client.delete(NODES, name)
        await transport.close()


def told(running: LocalCluster, story: Story) -> None:
    """A story from beginning to end on the server."""

    async def whole() -> None:
        async with a_server(running) as server:
            await story(server)

    asyncio.run(whole())


def test_slices_come_change_and_go_as_the_cards_do(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        assert await server.settle() == []
        assert await server.slices() == []
        server.offer(card(0), card(1))
        await server.settle()
        (first,) = await server.slices()
        node = msgspec.json.decode(await server.client.get(NODES, NODE))
        assert [owner.uid for owner in first.metadata.owner_references] == [node["metadata"]["uid"]]
        assert [one.name for one in first.spec.devices] == ["gpu-0", "gpu-1"]

        await server.settle()
        assert (await server.slices())[0].metadata.resource_version == first.metadata.resource_version

        server.offer(card(0), card(1, health=Verdict.UNHEALTHY, reason="Xid 79: it fell off the bus"))
        await server.settle()
        (second,) = await server.slices()
        assert second.spec.pool.generation == first.spec.pool.generation + 1
        assert [one.key for one in second.spec.devices[1].taints] == ["gpu.nvidia.com/xid"]
        await server.settle()
        assert (await server.slices())[0].metadata.resource_version == second.metadata.resource_version

        server.offer(card(0), card(1))
        await server.settle()
        assert [one.spec.devices for one in await server.slices()] == [first.spec.devices]

        server.pools.publish(())
        await server.settle()
        assert await server.slices() == []

    told(cluster, story)


def test_what_every_vendor_offers_is_kept_as_it_was_sent(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        node = a_mixed_node()
        server.offer(node=node)
        await server.settle()
        sent = {pool.name: [one.written for one in pool.devices] for pool in pools_of(node)}
        assert {one.spec.pool.name: list(one.spec.devices) for one in await server.slices()} == sent

    told(cluster, story)


def test_a_card_in_partitions_is_kept_as_it_was_sent(cluster: LocalCluster) -> None:  # noqa: F811
    """Nine cards have more counters than one slice takes; all is written once."""

    async def story(server: Server) -> None:
        pools = pools_of(a_node(*map(card, range(9))), cuts=True)
        server.pools.publish(pools)
        assert await server.settle() == []
        found = await server.slices()
        assert [len(one.spec.shared_counters) for one in found] == [8, 1, 0, 0, 0, 0]
        sent = [one.written for one in pools[0].devices]
        assert [one for each in found for one in each.spec.devices] == sent
        await server.settle()
        assert await server.slices() == found

    told(cluster, story)


def test_slices_of_others_stay_and_a_rival_keeps_ours_away(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        await server.write_as_another("another-driver", "gpu.example.com", NODE)
        await server.write_as_another("elsewhere", "gpu.nvidia.com", OTHER_NODE, OTHER_NODE)
        server.offer(card(0))
        assert await server.settle() == []
        others = [one for one in await server.slices() if one.spec.driver == "gpu.example.com"]
        assert len(others) == 1
        assert len(await server.slices()) == 2

        await server.write_as_another("vendors-own", "gpu.nvidia.com", NODE)
        (problem,) = await server.settle()
        assert "another program offers devices of gpu.nvidia.com on this node (vendors-own)" in problem
        assert {one.metadata.name for one in await server.slices()} == {"another-driver", "vendors-own"}

        await server.client.delete(RESOURCE_SLICES, "vendors-own")
        assert await server.settle() == []
        assert len(await server.slices()) == 2
        assert len(await server.slices(OTHER_NODE)) == 1

    told(cluster, story)


def test_where_taints_are_dropped_a_sick_card_is_not_offered(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        client = Client(Without(server.transport, "taints"), MachineClock(), random.Random(1))
        publisher = SlicePublisher(client, NODE, server.pools)
        server.offer(card(0), card(1, health=Verdict.UNHEALTHY, reason="Xid 79: it fell off the bus"))
        await publisher.settle()
        assert any("keeps no taints" in one for one in await publisher.settle())
        (found,) = await server.slices()
        assert [one.name for one in found.spec.devices] == ["gpu-0"]
        server.offer(card(0), card(1))
        await publisher.settle()
        assert [len(one.spec.devices) for one in await server.slices()] == [2]

    told(cluster, story)


def test_where_counters_are_dropped_cards_are_offered_as_a_whole(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        way = Without(server.transport, "sharedCounters", "consumesCounters")
        publisher = SlicePublisher(Client(way, MachineClock(), random.Random(1)), NODE, server.pools)
        server.pools.publish(pools_of(a_node(card(0)), cuts=True))
        with pytest.raises(KubeError, match="keeps no counters"):
            await publisher.settle()
        assert not any(one.spec.devices for one in await server.slices())
        assert any("keeps no counters" in one for one in await publisher.settle())
        assert [[one.name for one in each.spec.devices] for each in await server.slices()] == [["gpu-0"]]

    told(cluster, story)


def test_a_change_by_another_program_in_between_is_a_conflict(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        server.offer(card(0))
        await server.settle()
        (before,) = await server.slices()
        stale = [before]
        edited = msgspec.to_builtins(before)
        edited["metadata"]["labels"] = {"by": "another"}
        await server.client.replace(RESOURCE_SLICES, before.metadata.name, edited)
        server.offer(card(0), card(1))
        pool = (server.pools.value or ())[0]
        with pytest.raises(Conflict):
            await server.publisher.settle_pool(pool, stale)
        await server.settle()
        (after,) = await server.slices()
        assert (len(after.spec.devices), after.metadata.labels) == (2, {"by": "another"})

    told(cluster, story)


def test_killed_at_each_write_the_next_process_comes_to_the_same(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        large = [card(number) for number in range(DEVICES_MOST + 1)]
        wanted = [one.written for one in pools_of(a_node(*large))[0].devices]
        for writes in range(3):
            server.offer(card(0))
            await server.settle()
            dying = Client(Killing(server.transport, writes), MachineClock(), random.Random(1))
            pools: Topic[Pools] = Topic(pools_of(a_node(*large)))
            with contextlib.suppress(KubeError):
                await SlicePublisher(dying, NODE, pools).settle()
            server.offer(*large)
            server.publisher = SlicePublisher(server.client, NODE, server.pools)
            await server.settle()
            found = await server.slices()
            assert [one for each in found for one in each.spec.devices] == wanted
            assert len({each.spec.pool.generation for each in found}) == 1
            assert {each.spec.pool.resource_slice_count for each in found} == {len(found)}

    told(cluster, story)


def test_what_somebody_deletes_or_edits_is_put_right_again(cluster: LocalCluster) -> None:  # noqa: F811
    async def story(server: Server) -> None:
        server.offer(card(0))
        running = asyncio.create_task(server.publisher.run())
        try:
            (first,) = await until(server.slices, lambda found: len(found) == 1)
            await server.client.delete(RESOURCE_SLICES, first.metadata.name)
            (second,) = await until(server.slices, lambda found: len(found) == 1)
            assert second.metadata.uid != first.metadata.uid
            edited = msgspec.to_builtins(second)
            edited["spec"]["devices"] = []
            await server.client.replace(RESOURCE_SLICES, second.metadata.name, edited)
            await until(server.slices, lambda found: bool(found and found[0].spec.devices))
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    told(cluster, story)


async def until(
    look: Callable[[], Coroutine[Any, Any, list[ResourceSliceObject]]],
    holds: Callable[[list[ResourceSliceObject]], bool],
) -> list[ResourceSliceObject]:
    """What a look finds once this holds of it."""
    async with asyncio.timeout(WAIT_S):
        while not holds(found := await look()):  # noqa: ASYNC110  (the server is another process)
            await asyncio.sleep(0.1)
        return found


@pytest.mark.parametrize(
    "path", [one for one in FILES if one.name.startswith("52-")], ids=lambda path: path.stem
)
def test_input_52_the_server_says_of_a_malformed_slice_what_its_file_says(
    cluster: LocalCluster,  # noqa: F811
    path: Path,
) -> None:
    """What it takes although no device can be given of it is refused or unused by our own reader alone."""
    told_of = story_of(path)
    with cluster.api() as api:
        status, body = api.request(
            "POST", "/apis/resource.k8s.io/v1/resourceslices?dryRun=All", told_of["input"]
        )
    assert status == {"refused": 422, "accepted": 201}[told_of["server"]], body
