"""The edge against a real kube-apiserver: what the model servers of the other tests only claim."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.lease import Lease
from gpufleet.kube.mirror import Mirror, Pace
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Listed, Vanished
from gpufleet.kube.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PLUGINS_POD_GROUPS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
)
from gpufleet.kube.status import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
)
from gpufleet.localkube.cluster import LocalCluster
from tests.kube.byte_server import within
from tests.localkube.cluster import cluster  # noqa: F401  (a fixture)

WAIT_S = 60.0


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    annotations: dict[str, str] = {}


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod that a binding changes."""

    node_name: str = ""


class Thing(msgspec.Struct, frozen=True):
    """Any object."""

    metadata: Meta
    spec: Spec = Spec()


DECODER = msgspec.json.Decoder(Thing)


@contextlib.asynccontextmanager
async def client_in_namespace(running: LocalCluster, namespace: str) -> AsyncIterator[Client]:
    """A client of the real server, and a namespace of the test's own."""
    transport = HttpTransport(find_access(kubeconfig=running.kubeconfig, environment={}))
    client = Client(transport, MachineClock(), random.Random(1))
    try:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}}, name=namespace)
        async with asyncio.timeout(WAIT_S):
            while not await has_account(client, namespace):  # noqa: ASYNC110  (another process makes it)
                await asyncio.sleep(0.05)
        yield client
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(NAMESPACES, namespace)
        await transport.close()


async def has_account(client: Client, namespace: str) -> bool:
    """Whether pods can be created already."""
    try:
        await client.get(SERVICE_ACCOUNTS, "default", namespace=namespace)
    except NotFound:
        return False
    return True


async def create_pod(client: Client, name: str, namespace: str) -> Thing:
    body = {"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": [CONTAINER]}}
    return DECODER.decode(await client.create(PODS, body, name=name, namespace=namespace))


CONTAINER = {"name": "c", "image": "none"}


def settings(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


async def until(queue: "asyncio.Queue[Change[Thing]]", kind: type[object]) -> Change[Thing]:
    async with asyncio.timeout(WAIT_S):
        while not isinstance(change := await queue.get(), kind):
            pass
        return change


def test_binding_gives_node_and_grant_in_one_write(cluster: LocalCluster) -> None:  # noqa: F811
    async def main() -> None:
        async with client_in_namespace(cluster, "edge-bind") as client:
            pod = await create_pod(client, "p", "edge-bind")
            grant = {"gpufleet.io/test": "here"}
            with pytest.raises(Conflict):
                await client.bind("p", namespace="edge-bind", uid="of-another", node="n1")
            await client.bind("p", namespace="edge-bind", uid=pod.metadata.uid, node="n1", dry_run=True)
            await client.bind("p", namespace="edge-bind", uid=pod.metadata.uid, node="n1", annotations=grant)
            bound = DECODER.decode(await client.get(PODS, "p", namespace="edge-bind"))
            assert bound.spec.node_name == "n1"
            assert bound.metadata.annotations["gpufleet.io/test"] == "here"
            with pytest.raises(Conflict):
                await client.bind("p", namespace="edge-bind", uid=pod.metadata.uid, node="n2")
            with pytest.raises(NotFound):
                await client.bind("none", namespace="edge-bind", uid=pod.metadata.uid, node="n2")
            with pytest.raises(Conflict):
                await client.evict("p", namespace="edge-bind", uid="of-another")
            await client.evict("p", namespace="edge-bind", uid=pod.metadata.uid, grace_s=0)
            with contextlib.suppress(NotFound):
                await client.delete(PODS, "p", namespace="edge-bind", grace_s=0)

    within(WAIT_S, main)


def test_refusals_have_their_classes(cluster: LocalCluster) -> None:  # noqa: F811
    async def main() -> None:
        async with client_in_namespace(cluster, "edge-refusals") as client:
            space = "edge-refusals"
            made = DECODER.decode(await client.create(CONFIG_MAPS, settings("s", a="1"), namespace=space))
            with pytest.raises(AlreadyExists):
                await client.create(CONFIG_MAPS, settings("s"), namespace=space)
            with pytest.raises(Invalid) as invalid:
                await client.create(CONFIG_MAPS, settings("Not A Name"), namespace=space)
            assert invalid.value.details.causes[0].field == "metadata.name"
            version = made.metadata.resource_version
            await client.patch(CONFIG_MAPS, "s", {"data": {"b": "2"}}, namespace=space)
            stale = {"metadata": {"resourceVersion": version}, "data": {"c": "3"}}
            with pytest.raises(Conflict):
                await client.patch(CONFIG_MAPS, "s", stale, namespace=space)
            with pytest.raises(Conflict):
                await client.delete(CONFIG_MAPS, "s", resource_version=version, namespace=space)
            with pytest.raises(Conflict):
                await client.delete(CONFIG_MAPS, "s", uid="of-another", namespace=space)
            await client.delete(CONFIG_MAPS, "s", uid=made.metadata.uid, namespace=space)
            with pytest.raises(NotFound):
                await client.get(CONFIG_MAPS, "s", namespace=space)

    within(WAIT_S, main)


def test_what_is_served_and_what_is_not(cluster: LocalCluster) -> None:  # noqa: F811
    async def main() -> None:
        async with client_in_namespace(cluster, "edge-discovery") as client:
            for kind in (PODS, NODES, PRIORITY_CLASSES, POD_DISRUPTION_BUDGETS):
                assert kind in await client.kinds(kind.group, kind.version)
            assert not await client.serves(PLUGINS_POD_GROUPS)
            assert (await client.versions("storage.k8s.io"))[0] == "v1"
            assert await client.versions("no.such.group") == ()

    within(WAIT_S, main)


def test_lease_passes_from_one_to_the_next(cluster: LocalCluster) -> None:  # noqa: F811
    async def main() -> None:
        async with client_in_namespace(cluster, "edge-lease") as client:
            first, second = (
                Lease(client, "leader", namespace="edge-lease", identity=name) for name in ("a", "b")
            )
            assert await first.acquire() == 1
            assert await second.try_acquire() is None
            await first._renew()
            await first.release()
            assert await second.try_acquire() == 2
            assert not first.holds()

    within(WAIT_S, main)


def test_mirror_follows_a_real_server_through_pages_and_changes(cluster: LocalCluster) -> None:  # noqa: F811
    async def main() -> None:
        async with client_in_namespace(cluster, "edge-mirror") as client:
            space = "edge-mirror"
            for number in range(7):
                await client.create(CONFIG_MAPS, settings(f"s{number}"), namespace=space)
            queue: asyncio.Queue[Change[Thing]] = asyncio.Queue()
            mirror = Mirror(
                client, CONFIG_MAPS, DECODER, queue.put_nowait, namespace=space, pace=Pace(page_size=3)
            )
            task = asyncio.create_task(mirror.run())
            await until(queue, Listed)
            # The server adds one of its own: kube-root-ca.crt.
            assert {f"s{number}" for number in range(7)} <= {name for _, name in mirror.objects}
            await client.patch(CONFIG_MAPS, "s0", {"data": {"a": "b"}}, namespace=space)
            assert isinstance(await until(queue, Changed), Changed)
            await client.delete(CONFIG_MAPS, "s1", namespace=space)
            gone = await until(queue, Vanished)
            assert isinstance(gone, Vanished)
            assert gone.last.metadata.name == "s1"
            await client.create(CONFIG_MAPS, settings("s1"), namespace=space)
            new = await until(queue, Appeared)
            assert isinstance(new, Appeared)
            assert new.object.metadata.uid != gone.last.metadata.uid
            task.cancel()
            await asyncio.wait({task})

    within(WAIT_S, main)
