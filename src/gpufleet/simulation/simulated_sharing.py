"""Simulated nodes of ``gpufleet up`` follow NVIDIA's ConfigMaps of sharing, as a node with an agent does.

What counts, for which node, and what is said of it is decided by the agent's own code, one ``SharingSource``
a node; here the node's amounts, its labels and its NodeDevices are written. Nothing is done before there is
such a ConfigMap. Nodes that are cut into MIG instances stay as they were made.

``python -m gpufleet.simulation.simulated_sharing KUBECONFIG`` runs beside the cluster.
"""

import asyncio
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gpufleet.agent.events.node_events import NodeEvents
from gpufleet.agent.labels.nvidia import WHOLE, nvidia_labels
from gpufleet.agent.reports.reported_devices import lists_parts, reported_devices
from gpufleet.agent.sharing.nvidia_config_maps import NvidiaConfigMaps
from gpufleet.agent.sharing.plan_record import PlanRecord
from gpufleet.agent.sharing.sharing_source import SharingSource
from gpufleet.agent.state.node_state import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import SHARED, by_resource, node_units
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.sharing.any_format import GpuPlans
from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.devices.sharing.plan import Exclusive
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import read_grant
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.errors import KubeError, ObjectError
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.objects import node_devices as wire
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS
from gpufleet.localkube.simulated_nodes import SHARE_SLOTS_PER_GPU
from gpufleet.model.device_id import device_name
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.resource_names import NVIDIA_GPU

LOG = logging.getLogger(__name__)
SIMULATED = Selection(labels="type=simulated")
CONNECTIONS = 8
"""So many nodes are written at once."""

# Changes that come together are one look.
GATHERING_S = 0.2
# What the server refused once is tried again after a moment.
AGAIN_S = 2.0
SHARED_SUFFIX = "-SHARED"
"""What feature discovery appends to the product of GPUs that are shared."""

FOLLOWED_LABELS = (f"{WHOLE}.product", f"{WHOLE}.replicas", f"{WHOLE}.sharing-strategy")


class SimulatedSharing:
    """Has every simulated node with whole GPUs of NVIDIA's offer them as a ConfigMap says.

    ``folder`` is for what each node keeps over a restart of this program.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._texts = NvidiaConfigMaps(client, NVIDIA_CONFIG_MAPS)
        self._bell = asyncio.Event()
        ring = self._ring
        self._nodes = Mirror(client, NODES, msgspec.json.Decoder(Node), ring, selection=SIMULATED)
        self._reports = Mirror(client, NODE_DEVICES, msgspec.json.Decoder(wire.NodeDevices), ring)
        self._pods = Mirror(client, PODS, msgspec.json.Decoder(Pod), ring)
        self._followers: dict[str, tuple[_SharedNode, asyncio.Task[None]]] = {}

    def _ring(self, _: object) -> None:
        self._bell.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            mirrors = (self._nodes, self._reports, self._pods)
            for part in (self._texts, *mirrors):
                group.create_task(part.run())
            for mirror in mirrors:
                await mirror.wait_listed()
            async for texts in self._texts.topic.follow():
                if texts.loaded and (not texts.is_absent or any(map(_is_shared, self._devices()))):
                    break
            while True:
                self._bell.clear()
                self._look(group)
                await self._bell.wait()
                await self._client.clock.sleep(GATHERING_S)

    def _devices(self) -> Iterable[wire.NodeDevices]:
        names = {node.metadata.name for node in self._nodes.objects.values()}
        return [one for one in self._reports.objects.values() if one.metadata.name in names]

    def _look(self, group: asyncio.TaskGroup) -> None:
        """Have each node followed that is there, and tell it its labels and pods."""
        pods: dict[str, NodePods] = {}
        for pod in self._pods.objects.values():
            if pod.spec.node_name and keys.GRANT in pod.metadata.annotations:
                pods.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = _node_pod(pod)
        there = {report.metadata.name for report in self._devices() if _follows(report)}
        for name in self._followers.keys() - there:
            self._followers.pop(name)[1].cancel()
        for name in there:
            node = self._nodes.get(name)
            if node is None:
                continue
            if name not in self._followers:
                shared = _SharedNode(self._client, name, self._texts, self._folder, self._reports)
                self._followers[name] = shared, group.create_task(shared.run(node))
            self._followers[name][0].tell(node.metadata.labels, pods.get(name, {}))


class _SharedNode:
    """One node: what the agent's code decides for it is written into the API."""

    def __init__(
        self,
        client: Client,
        name: str,
        texts: NvidiaConfigMaps,
        folder: Path,
        reports: Mirror[wire.NodeDevices],
    ) -> None:
        self._client = client
        self._name = name
        self._reports = reports
        self._labels: Topic[dict[str, str] | None] = Topic(None)
        self._pods: Topic[NodePods] = Topic({})
        self._holders: Topic[Holders] = Topic(())
        self._events = NodeEvents(client, name)
        kept = folder / name
        kept.mkdir(parents=True, exist_ok=True)
        self._source = SharingSource(
            texts.topic, self._labels, self._pods, self._holders, PlanRecord(kept), self._events
        )

    def tell(self, labels: dict[str, str], pods: NodePods) -> None:
        """The labels and the pods of the node are these now."""
        self._holders.publish(tuple(held for pod in pods.values() for held in _held(pod)))
        self._pods.publish(pods)
        self._labels.publish(labels)

    async def run(self, node: Node) -> None:
        """Follow until cancelled."""
        product = node.metadata.labels.get(f"{WHOLE}.product", "").removesuffix(SHARED_SUFFIX)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._source.run())
            group.create_task(self._events.run())
            await self._source.wait_loaded()
            written: GpuPlans | None = None
            async for planner in self._source.planner.follow():
                report = self._reports.get(self._name)
                if report is None:
                    continue
                gpus = facts_of(report, product)
                plans = planner(gpus).by_gpu
                while plans != written and not await self._write(gpus, plans, report):
                    await self._client.clock.sleep(AGAIN_S)
                written = plans

    async def _write(self, gpus: tuple[GpuFacts, ...], plans: GpuPlans, report: wire.NodeDevices) -> bool:
        """Whether the node offers its GPUs by these plans now."""
        offered = NodeGpus(self._name, gpus=tuple(Gpu(gpu, plans[gpu.uuid]) for gpu in gpus))
        amounts, devices = amounts_of(offered), devices_of(offered)
        metadata = {"labels": labels_of(offered)}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        spec = msgspec.structs.replace(report.spec, devices=devices)
        try:
            body = msgspec.Raw(wire.encode_node_devices(self._name, spec))
            await self._client.patch(NODE_DEVICES, self._name, body)
            await self._client.patch(NODES, self._name, {"metadata": metadata})
            await self._client.patch(NODES, self._name, status, subresource="status")
        except KubeError as problem:
            LOG.warning("a node was not changed", extra={"node": self._name, "problem": str(problem)})
            return False
        LOG.info("a node offers its GPUs anew", extra={"node": self._name, "amounts": amounts})
        return True


def facts_of(report: wire.NodeDevices, product: str) -> tuple[GpuFacts, ...]:
    """The cards behind a report, which may have each card as several devices."""
    cards: dict[DeviceId, wire.ReportedDevice] = {}
    for device in report.spec.devices:
        cards.setdefault(device_name(DeviceId(device.id)).card, device)
    return tuple(
        GpuFacts(
            uuid=card,
            vendor=Vendor(device.vendor),
            index=index,
            product=product or device.model,
            memory_mib=device.memory_mib,
            reserved_mib=None,
            numa_node=device.numa_node,
        )
        for index, (card, device) in enumerate(cards.items())
    )


def amounts_of(offered: NodeGpus) -> dict[str, str | None]:
    """What the node offers, as a merge patch of its amounts."""
    counts = {resource: len(units) for resource, units in by_resource(node_units(offered)).items()}
    whole = sum(isinstance(gpu.plan.mode, Exclusive) for gpu in offered.gpus)
    renamed = counts.get(NVIDIA_GPU + SHARED)
    return {
        NVIDIA_GPU: str(counts.get(NVIDIA_GPU, 0)),
        NVIDIA_GPU + SHARED: None if renamed is None else str(renamed),
        keys.GPU_SHARE: str(whole * SHARE_SLOTS_PER_GPU),
    }


def labels_of(offered: NodeGpus) -> dict[str, str | None]:
    """What feature discovery says of the sharing, as a merge patch; of whole GPUs their product alone."""
    found = nvidia_labels(offered)
    if all(isinstance(gpu.plan.mode, Exclusive) for gpu in offered.gpus):
        found = {name: text for name, text in found.items() if name == FOLLOWED_LABELS[0]}
    return {name: found.get(name) for name in FOLLOWED_LABELS}


def devices_of(offered: NodeGpus) -> tuple[wire.ReportedDevice, ...]:
    """The devices of the report; a GPU that is not shared takes whole pods and shares, as it was made."""
    listed = lists_parts(offered)
    found: list[wire.ReportedDevice] = []
    for gpu in offered.gpus:
        mode = wire.MIXED if isinstance(gpu.plan.mode, Exclusive) else None
        devices = reported_devices(gpu, 0, listed=listed)
        found += devices if mode is None else (msgspec.structs.replace(one, sharing=mode) for one in devices)
    return tuple(found)


def _follows(report: wire.NodeDevices) -> bool:
    """Whether the node has GPUs of NVIDIA's, none of them cut."""
    devices = report.spec.devices
    return bool(devices) and all(
        one.vendor == Vendor.NVIDIA.value and one.sharing != wire.MIG for one in devices
    )


def _is_shared(report: wire.NodeDevices) -> bool:
    return any(device_name(DeviceId(one.id)).replica is not None for one in report.spec.devices)


def _node_pod(pod: Pod) -> NodePod:
    meta = pod.metadata
    try:
        grant = read_grant(meta.annotations[keys.GRANT])
    except ObjectError as problem:
        return NodePod(meta.uid, meta.namespace, meta.name, grant_problem=str(problem))
    return NodePod(meta.uid, meta.namespace, meta.name, grant=grant, finished=pod.terminal)


def _held(pod: NodePod) -> Iterator[Held]:
    """What its kubelet would have given the pod: what it was granted."""
    if pod.grant is None or pod.finished:
        return
    for container in pod.grant.containers:
        units = tuple(device.id for device in container.devices)
        yield Held(pod.namespace, pod.name, container.container, NVIDIA_GPU, units, pod.uid)


async def main(kubeconfig: Path) -> None:
    """Follow the ConfigMaps until killed."""
    async with connect(ClusterChoice(kubeconfig=kubeconfig), connections=CONNECTIONS) as connection:
        await SimulatedSharing(connection.client, kubeconfig.parent / "sharing").run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(Path(sys.argv[1])))
