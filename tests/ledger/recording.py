"""What a real API server told of some pods, nodes, reports and a queue, as it told it; and how it is made.

``python -m tests.ledger.recording`` plays ``story`` on a control plane of this machine and writes all that
its watches tell into ``recording.jsonl.gz``. Times and versions are the server's own.
"""

import asyncio
import datetime as dt
import gzip
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.kube import keys, resources
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.codec.grant import write_grant
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.resources import Kind
from gpufleet.ledger.object_versions import READERS, gone_of, listed_of, version_of
from gpufleet.ledger.versions import Followed, Observation
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.bound_terms import BoundGang, BoundTerms
from gpufleet.model.gang import Gang
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice
from gpufleet.model.identifiers import DeviceId, GangName, QueueName

FILE = Path(__file__).with_name("recording.jsonl.gz")
KINDS = {kind.name: kind for kind in READERS}
NODES = SimulatedNodes(1, 2, gpu_model("H100-80GB"), managed=False)
NODE = "ledger-0"
NAMESPACE = "default"
Object = dict[str, Any]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was heard, and when: an event of a watch, a list with its uids, or the end of a watch."""

    heard_us: int
    kind: str
    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")
    number: int = 0
    uids: tuple[str, ...] = ()


def lines() -> list[Line]:
    """The recording."""
    with gzip.open(FILE) as file:
        return [msgspec.json.decode(line, type=Line) for line in file]


def observations() -> list[Observation]:
    """What the ledger makes of it."""
    return [seen for line in lines() for seen in observed(line)]


def observed(line: Line) -> Iterator[Observation]:
    """What the ledger makes of one line."""
    kind = KINDS[line.kind]
    if line.type == "LISTED":
        yield listed_of(kind, line.number, line.heard_us, line.uids)
    elif line.type == "FOLLOWED":
        yield Followed(READERS[kind][0], line.number, line.heard_us)
    elif line.type == "DELETED":
        yield from gone_of(kind, line.object, line.heard_us)
    else:
        yield version_of(kind, line.object)


def now_us() -> int:
    return int(dt.datetime.now(dt.UTC).timestamp() * 1e6)


def stamp() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def record(client: Client, kind: Kind, found: list[Line]) -> None:
    """A list, and what a watch tells until the story is over."""
    began_us = now_us()
    uids: list[str] = []
    async for page in client.list_pages(kind):
        number = int(page.metadata.resource_version)
        for raw in page.items or ():
            found.append(Line(now_us(), kind.name, "ADDED", raw))
            uids.append(version_of(kind, raw).uid)
    found.append(Line(began_us, kind.name, "LISTED", number=number, uids=tuple(uids)))
    watch = await client.watch(kind, str(number))
    try:
        async for events in watch:
            found += [
                Line(now_us(), kind.name, event.type, event.object)
                for event in events
                if event.type != "BOOKMARK"
            ]
    finally:
        found.append(Line(now_us(), kind.name, "FOLLOWED", number=began_us))
        await watch.close()


class Story:
    """A scheduler, a kubelet and people, as far as they write."""

    def __init__(self, client: Client) -> None:
        self.client = client
        report = simulated_nodes.report("pay", NODE, NODES)
        self.report = report
        self.owner_uid = ""
        self.cards = [DeviceId(one["id"]) for one in report["spec"]["devices"]]

    async def play(self) -> None:
        """From an empty cluster to an empty cluster."""
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "run"}}
        made = await self.client.create(resources.CONFIG_MAPS, owner, namespace=NAMESPACE)
        self.owner_uid = msgspec.json.decode(made)["metadata"]["uid"]
        await self.client.create(resources.FLEET_QUEUES, queue())
        await self.client.create(resources.NODES, simulated_nodes.node(NODE, NODES))
        await self.turn_ready()
        await self.client.create(resources.NODE_DEVICES, self.report)
        await asyncio.sleep(1.1)
        gang = BoundGang(Gang(GangName("train"), min_members=2, queue=QueueName("research")))
        await self.start("train-0", self.cards[0], gang)
        await asyncio.sleep(1.1)
        await self.start("train-1", self.cards[1], gang)
        await asyncio.sleep(1.1)
        for name in ("train-0", "train-1"):
            await self.status(name, running=stamp())
        await asyncio.sleep(1.1)
        await self.status("train-0", phase="Succeeded", finished=stamp())
        await self.end("train-1")
        await self.start("serve-0", self.cards[0])
        await asyncio.sleep(1.1)
        started = stamp()
        await self.status("serve-0", running=started, ready="False")
        await asyncio.sleep(1.1)
        await self.status("serve-0", running=started, ready="True")
        await self.keep_place()
        await self.cordon_and_fall_ill()
        await asyncio.sleep(1.1)
        await self.client.delete(resources.PODS, "serve-0", namespace=NAMESPACE, grace_s=0)
        await self.client.delete(resources.NODES, NODE)
        await self.client.delete(resources.NODE_DEVICES, NODE)
        await asyncio.sleep(0.5)

    async def turn_ready(self) -> None:
        """What its kubelet says first."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp()}
        status = {"status": {"conditions": [ready]}}
        await self.client.patch(resources.NODES, NODE, status, subresource="status")

    async def start(self, name: str, card: DeviceId, gang: BoundGang | None = None) -> None:
        """A pod is made and bound with a grant."""
        made = msgspec.json.decode(
            await self.client.create(
                resources.PODS, pod(name, self.owner_uid), name=name, namespace=NAMESPACE
            )
        )
        terms = BoundTerms(QueueName("research"), 0, now_us(), gang=gang)
        grant = Grant(3, (ContainerGrant("main", (GrantedDevice(card),)),), terms)
        await self.client.bind(
            name,
            namespace=NAMESPACE,
            uid=made["metadata"]["uid"],
            node=NODE,
            annotations={keys.GRANT: write_grant(grant)},
        )

    async def status(
        self, name: str, *, phase: str = "Running", running: str = "", finished: str = "", ready: str = ""
    ) -> None:
        """What the kubelet says of a pod with one container."""
        if finished:
            state: Object = {"terminated": {"exitCode": 0, "startedAt": finished, "finishedAt": finished}}
        else:
            state = {"running": {"startedAt": running}}
        container = {"name": "main", "image": "a", "imageID": "a", "ready": ready == "True"}
        status: Object = {
            "phase": phase,
            "startTime": running or finished,
            "containerStatuses": [{**container, "restartCount": 0, "state": state}],
        }
        if ready:
            status["conditions"] = [{"type": "Ready", "status": ready, "lastTransitionTime": stamp()}]
        await self.client.patch(
            resources.PODS,
            name,
            {"status": status},
            namespace=NAMESPACE,
            subresource="status",
            patch_type=PatchType.STRATEGIC,
        )

    async def end(self, name: str) -> None:
        """A deletion with time to end, which the kubelet needs a second of."""
        await self.client.delete(resources.PODS, name, namespace=NAMESPACE, grace_s=30)
        await asyncio.sleep(1.1)
        await self.status(name, finished=stamp())
        await self.client.delete(resources.PODS, name, namespace=NAMESPACE, grace_s=0)

    async def keep_place(self) -> None:
        """A scheduler keeps a card for waiting work of a queue."""
        place = {"pod": "a-uid", "node": NODE, "devices": [self.cards[1]]}
        reservation = {"holder": "a-uid", "name": "default/big", "since": stamp(), "places": [place]}
        status = {"status": {"reservation": {**reservation, "expectedStart": None, "waitsFor": []}}}
        await self.client.patch(resources.FLEET_QUEUES, "research", status, subresource="status")

    async def cordon_and_fall_ill(self) -> None:
        """Somebody cordons the node, and an agent finds a card ill."""
        await asyncio.sleep(1.1)
        await self.client.patch(resources.NODES, NODE, {"spec": {"unschedulable": True}})
        devices = self.report["spec"]["devices"]
        ill = {**devices[1], "health": "unhealthy", "healthReason": "Xid 79"}
        patch = {"spec": {"devices": [devices[0], ill]}}
        await self.client.patch(resources.NODE_DEVICES, NODE, patch)


def queue() -> Object:
    metadata = {"name": "research"}
    return {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "FleetQueue",
        "metadata": metadata,
        "spec": {"quotas": [{"resource": "gpu", "nominal": 2}]},
    }


def pod(name: str, owner_uid: str) -> Object:
    """A pod with an owner; what serves has a probe."""
    container: Object = {
        "name": "main",
        "image": "example.com/none",
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    if name.startswith("serve"):
        container["readinessProbe"] = {"tcpSocket": {"port": 80}}
    # A controller of pods would delete these as none of its own, and pods without a living owner go too.
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "run", "uid": owner_uid, "controller": True}
    metadata = {"name": name, "labels": {"team": "vision"}, "ownerReferences": [owner]}
    spec = {
        "schedulerName": "gpufleet",
        "containers": [container],
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def recorded(kubeconfig: Path) -> list[Line]:
    """The story, heard."""
    found: list[Line] = []
    async with connect(ClusterChoice(kubeconfig), connections=8) as (client, _, _):
        hearing = [asyncio.create_task(record(client, kind, found)) for kind in READERS]
        await asyncio.sleep(0.5)
        await Story(client).play()
        for one in hearing:
            one.cancel()
        await asyncio.gather(*hearing, return_exceptions=True)
    return found


def definitions(folder: Path) -> Path:
    """gpufleet's kinds without its policies: the story writes grants as nobody may."""
    folder.mkdir()
    for name in ("nodedevices.yaml", "fleetqueues.yaml"):
        shutil.copy(manifests.FOLDER / name, folder / name)
    return folder


def main() -> None:
    """Play the story and write the recording."""
    from tests.localkube.cluster import a_cluster

    with tempfile.TemporaryDirectory() as place:
        folder: Mapping[str, Path] = {name: Path(place) / name for name in ("cluster", "definitions")}
        folder["cluster"].mkdir()
        with a_cluster(folder["cluster"]) as running:
            with running.api() as api:
                manifests.install(api, definitions(folder["definitions"]))
            found = asyncio.run(recorded(running.kubeconfig))
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in found)
    FILE.write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
