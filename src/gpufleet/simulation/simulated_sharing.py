"""Simulated nodes of ``gpufleet up`` follow NVIDIA's ConfigMaps of sharing, as a node with an agent does.

What counts, for which node, and what is said of it is decided by the agent's own code, one ``SharingSource``
a node; here the node's amounts, its labels and its NodeDevices are written. Nothing is done before there is
such a ConfigMap. A GPU that is cut keeps its MIG instances; a ConfigMap may share them too.

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
from gpufleet.devices.facts import GpuFacts, MigFacts
from gpufleet.devices.sharing.any_format import GpuPlans
from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.devices.sharing.plan import Exclusive, unshared
from gpufleet.devices.sharing.plugin_plans import resource_name
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import read_grant
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.kube_errors import KubeError, ObjectError
from gpufleet.kube.listing import Selection
from gpufleet.kube.meanings.node_labels import MIG_STRATEGY
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.objects import node_devices as wire
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS
from gpufleet.localkube.simulated_nodes import SHARE_SLOTS_PER_GPU
from gpufleet.model.device_id import DeviceName, MigPlace, device_name
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId, GpuModelName
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.resource_names import NVIDIA_GPU, mig_resource

PLUGIN = "nvidia-device-plugin"
"""Part of a label on the pods of NVIDIA's device plugin: of its manifest, its chart and the operator."""

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

CUT_PRODUCT = "-MIG-"
"""What feature discovery appends to the product where instances go by the name of whole GPUs."""

REPLICAS = ".replicas"
"""The end of the label with the number of shares, which only nodes have that follow a ConfigMap."""

WHOLE_PREFIXES = (WHOLE, mig_resource(""))
PRODUCT, COUNT = f"{WHOLE}.product", f"{WHOLE}.count"
SHARING_LABELS = (PRODUCT, f"{WHOLE}{REPLICAS}", f"{WHOLE}.sharing-strategy")


class SimulatedSharing:
    """Has every simulated node with GPUs of NVIDIA's offer them as a ConfigMap says.

    ``folder`` is for what each node keeps over a restart of this program.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._texts = NvidiaConfigMaps(client, NVIDIA_CONFIG_MAPS, self._other_plugins)
        self._wake = asyncio.Event()
        on_change = self._on_change
        self._nodes = Mirror(client, NODES, msgspec.json.Decoder(Node), on_change, selection=SIMULATED)
        self._reports = Mirror(client, NODE_DEVICES, msgspec.json.Decoder(wire.NodeDevices), on_change)
        self._pods = Mirror(client, PODS, msgspec.json.Decoder(Pod), on_change)
        self._followers: dict[str, tuple[_SharedNode, asyncio.Task[None]]] = {}

    def _on_change(self, _: object) -> None:
        self._wake.set()

    def _other_plugins(self) -> tuple[str, ...]:
        """One pod of NVIDIA's device plugin on these nodes: the ConfigMap is its then, as on a real node."""
        names = {node.metadata.name for node in self._nodes.objects.values()}
        titles = (
            f"pod {pod.metadata.path}"
            for pod in self._pods.objects.values()
            if pod.spec.node_name in names
            if any(PLUGIN in value for value in pod.metadata.labels.values())
        )
        return tuple(sorted(titles)[:1])

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            mirrors = (self._nodes, self._reports, self._pods)
            for part in (self._texts, *mirrors):
                group.create_task(part.run())
            for mirror in mirrors:
                await mirror.wait_listed()
            # A node that followed a ConfigMap before this program began anew has to be put back where that is
            # gone.
            async for texts in self._texts.topic.follow():
                if texts.loaded and (
                    not texts.is_absent or any(map(_is_shared, self._nodes.objects.values()))
                ):
                    break
            while True:
                self._wake.clear()
                self._look(group)
                await self._wake.wait()
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
        told = node.metadata.labels.get(PRODUCT, "")
        product = told.partition(CUT_PRODUCT)[0].removesuffix(SHARED_SUFFIX)
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
    places: dict[DeviceId, dict[MigPlace, MigFacts]] = {}
    for device in report.spec.devices:
        name = device_name(DeviceId(device.id))
        cards.setdefault(name.card, device)
        found = places.setdefault(name.card, {})
        listed = [MigPlace(one.profile, one.start) for one in device.mig_instances]
        for place in [*listed, *([] if name.place is None else [name.place])]:
            found.setdefault(place, _instance(name.card, place, device.model, len(found)))
    return tuple(
        GpuFacts(
            uuid=card,
            vendor=Vendor(device.vendor),
            index=index,
            product=product or device.model,
            memory_mib=device.memory_mib,
            reserved_mib=None,
            numa_node=device.numa_node,
            mig_enabled=True if places[card] else None,
            mig=tuple(places[card].values()),
        )
        for index, (card, device) in enumerate(cards.items())
    )


def _instance(card: DeviceId, place: MigPlace, model: str, number: int) -> MigFacts:
    """An instance as a driver would tell it, under an id that stays."""
    board = BOARDS.get(GpuModelName(model))
    return MigFacts(
        uuid=DeviceName(card, place).id,
        profile=place.profile,
        start=place.start,
        gpu_instance=number,
        compute_instance=0,
        memory_mib=None if board is None else board.profile(place.profile).memory_mib,
    )


def amounts_of(offered: NodeGpus) -> dict[str, str | None]:
    """What the node offers, as a merge patch of its amounts."""
    counts = {resource: len(units) for resource, units in by_resource(node_units(offered)).items()}
    whole = sum(isinstance(gpu.plan.mode, Exclusive) for gpu in offered.gpus)
    slots = whole * SHARE_SLOTS_PER_GPU
    found: dict[str, str | None] = {}
    for name in (NVIDIA_GPU, *_instance_resources(offered)):
        # What was offered under its own name, and is not now, is 0, as with a kubelet.
        found[name] = str(counts.get(name, 0))
        found[name + SHARED] = str(counts[name + SHARED]) if name + SHARED in counts else None
    if all(gpu.facts.mig for gpu in offered.gpus):
        found[NVIDIA_GPU] = str(counts[NVIDIA_GPU]) if NVIDIA_GPU in counts else None
        return {**found, keys.GPU_SHARE: None}
    return {**found, keys.GPU_SHARE: str(slots)}


def _instance_resources(offered: NodeGpus) -> list[str]:
    """The resources of the instances that there are, by their profiles."""
    return sorted({resource_name(part.profile) for gpu in offered.gpus for part in gpu.facts.mig})


def labels_of(offered: NodeGpus) -> dict[str, str | None]:
    """What feature discovery says of the sharing, as a merge patch.

    A node whose devices are not shared has the labels with which it was made.
    """
    found = nvidia_labels(offered)
    instances = _instance_resources(offered)
    as_made = [PRODUCT, *([COUNT, MIG_STRATEGY] if instances else []), *(f"{one}.count" for one in instances)]
    of_instances = (
        f"{one}.{word}" for one in instances for word in ("product", "replicas", "sharing-strategy")
    )
    if all(gpu.plan.mode == unshared(gpu.facts) for gpu in offered.gpus):
        found = {name: found[name] for name in as_made if name in found}
    return {name: found.get(name) for name in (*as_made, *SHARING_LABELS, *of_instances)}


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
    """Whether the node has GPUs of NVIDIA's, and no others."""
    devices = report.spec.devices
    return bool(devices) and all(one.vendor == Vendor.NVIDIA.value for one in devices)


def _is_shared(node: Node) -> bool:
    """Whether the node followed a ConfigMap when this program ended."""
    return any(name.startswith(WHOLE_PREFIXES) and name.endswith(REPLICAS) for name in node.metadata.labels)


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
