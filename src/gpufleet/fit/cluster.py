"""Where in a cluster a model fits: on nodes with free GPUs now, and on which when all are idle.

Where a node's agent reports its devices (NodeDevices), the report says which of them are whole and healthy,
what memory a program finds there and which pods or foreign processes hold what. Elsewhere GPUs are counted as
kube-scheduler counts them: what nodes offer, less what pods ask for that are bound and have not ended. GPUs
that are shared in time or cut by MIG are no whole cards, so nodes that have no others are left out and named.
``cluster_file`` reads these objects from a file.
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.basis import Basis
from gpufleet.fit.catalogue import CardEntry, cards
from gpufleet.kube.codec.containers import devices_held
from gpufleet.kube.listing import Page
from gpufleet.kube.meanings.node_labels import PRODUCT_LABELS
from gpufleet.kube.objects.node import READY, Node
from gpufleet.kube.objects.node_devices import HEALTHY, MIXED, WHOLE, NodeDevices, ReportedDevice
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS, Kind
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.model import gpu_model
from gpufleet.model.device_id import device_name
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.resource_names import GPU_RESOURCES

# Endings of the product label with which feature discovery marks GPUs that are shared or cut.
DIVIDED = ("-SHARED", "-MIG-")
ENDED = ("Succeeded", "Failed")

_NODE = msgspec.json.Decoder(Node)
_POD = msgspec.json.Decoder(Pod)
_DEVICES = msgspec.json.Decoder(NodeDevices)


class Lister(Protocol):
    """What is needed of a client."""

    def list_pages(self, kind: Kind) -> AsyncIterator[Page]:
        """The pages of a list."""


@dataclass(frozen=True, slots=True)
class FoundGpus:
    """What was read of a cluster. ``devices`` are the reports of agents, by node; without agents there are
    none.
    """

    nodes: list[Node]
    pods: list[Pod]
    devices: dict[str, NodeDevices] = field(default_factory=dict)


class NodeGpus(msgspec.Struct, frozen=True):
    """A node's GPUs: all it offers, and those that no pod has; ``why_not`` if none can be had.

    ``usable_mib`` is what a program finds on the smallest of them; None where no agent reports it.
    """

    node: str
    card: str
    gpus: int
    free: int
    why_not: str = ""
    usable_mib: int | None = None


class RunnableCopies(msgspec.Struct, frozen=True):
    """Where one answer can run: how many copies now and on an idle cluster, and on which nodes."""

    gpu: str
    gpus: int
    tensor_parallel: int
    pipeline_parallel: int
    now: int
    idle: int
    nodes_now: tuple[str, ...]
    nodes_idle: tuple[str, ...]


async def read_cluster(client: Lister) -> FoundGpus:
    """What a client finds. Reports of agents are left out where there are none, or may not be read."""
    nodes = [_NODE.decode(raw) async for raw in _items(client, NODES)]
    pods = [_POD.decode(raw) async for raw in _items(client, PODS)]
    try:
        reports = [_DEVICES.decode(raw) async for raw in _items(client, NODE_DEVICES)]
    except (NotFound, Forbidden):
        reports = []
    return FoundGpus(nodes, pods, {report.metadata.name: report for report in reports})


async def _items(client: Lister, kind: Kind) -> AsyncIterator[msgspec.Raw]:
    async for page in client.list_pages(kind):
        for raw in page.items or ():
            yield raw


def rooms_of(found: FoundGpus) -> list[NodeGpus]:
    """The GPU nodes of a cluster, by name."""
    held: dict[str, int] = {}
    for pod in found.pods:
        if pod.spec.node_name and pod.status.phase not in ENDED:
            held[pod.spec.node_name] = held.get(pod.spec.node_name, 0) + gpus_of(pod)
    rooms = []
    for node in found.nodes:
        name = node.metadata.name
        report = found.devices.get(name)
        room = (
            room_of(node, held.get(name, 0))
            if report is None
            else reported_room(node, report, held.get(name, 0))
        )
        if room is not None:
            rooms.append(room)
    return sorted(rooms, key=lambda room: room.node)


def gpus_of(pod: Pod) -> int:
    """GPUs that a pod holds, as kube-scheduler counts them."""
    return devices_held(pod.spec, GPU_RESOURCES)


def room_of(node: Node, held: int) -> NodeGpus | None:
    """The node's GPUs as its labels and the kubelet say; None if it has none."""
    allocatable = node.status.allocatable
    gpus = sum(int(text) for name in GPU_RESOURCES if (text := allocatable.get(name, "")).isdigit())
    product = next((node.metadata.labels[one] for one in PRODUCT_LABELS if one in node.metadata.labels), "")
    if not gpus and not product:
        return None
    why_not = "its GPUs are shared or cut by MIG" if any(mark in product for mark in DIVIDED) else ""
    card, unknown = _card(product)
    why_not = why_not or unknown or _state(node)
    return NodeGpus(node.metadata.name, card, gpus, max(0, gpus - held), why_not)


def reported_room(node: Node, report: NodeDevices, held: int) -> NodeGpus | None:
    """The node's GPUs as its agent reports them; None if it has none.

    A pod that is bound holds nothing before it starts, so what pods ask for counts too.
    """
    if not report.spec.devices:
        return None
    devices = [device for device in report.spec.devices if _is_whole(device)]
    # The holder of a part has the card's memory too.
    taken = {device_name(DeviceId(holder.device)).card for holder in report.spec.holders}
    usable = [device for device in devices if device.health == HEALTHY and not device.taints]
    models = {device.model for device in devices}
    card, why_not = _card(next(iter(models))) if len(models) == 1 else ("", "")
    if not devices:
        why_not = "its GPUs are shared or cut by MIG"
    elif len(models) > 1:
        why_not = f"its GPUs are of several models ({', '.join(sorted(models))})"
    elif not usable:
        why_not = "none of its GPUs is healthy"
    free = sum(DeviceId(device.id) not in taken for device in usable)
    memory = [device.usable_memory_mib for device in usable if device.usable_memory_mib is not None]
    return NodeGpus(
        node.metadata.name,
        card,
        len(usable),
        max(0, min(free, len(usable) - held)),
        why_not or _state(node),
        min(memory) if memory and len(memory) == len(usable) else None,
    )


def _is_whole(device: ReportedDevice) -> bool:
    """Whether the device can be given as a whole card."""
    return device.sharing in {WHOLE, MIXED} and device_name(DeviceId(device.id)).card == device.id


def _card(product: str) -> tuple[str, str]:
    """The card's name in the catalogue, and why nothing is known about it."""
    model = gpu_model.find(product) if product else None
    if model is None or str(model.name) not in {card.model for card in cards()}:
        name = str(model.name) if model is not None else product
        return name, f"its GPUs are of no known model ({product or 'no label says which'})"
    return str(model.name), ""


def _state(node: Node) -> str:
    if any(one.type == READY and one.status != "True" for one in node.status.conditions):
        return "it is not ready"
    return "it is cordoned" if node.spec.unschedulable else ""


def cards_of_rooms(rooms: Iterable[NodeGpus]) -> tuple[CardEntry, ...]:
    """The cards that the cluster has, with the most of them that one of its nodes has, and the least memory
    that a node reports of one.
    """
    most: dict[str, int] = {}
    least: dict[str, int] = {}
    for room in rooms:
        if room.why_not:
            continue
        most[room.card] = max(most.get(room.card, 0), room.gpus)
        if room.usable_mib is not None:
            least[room.card] = min(least.get(room.card, room.usable_mib), room.usable_mib)
    return tuple(
        _as_found(card, most[card.model], least.get(card.model)) for card in cards() if most.get(card.model)
    )


def _as_found(card: CardEntry, gpus: int, usable_mib: int | None) -> CardEntry:
    found = msgspec.structs.replace(card, gpus_per_node_max=gpus)
    if usable_mib is None:
        return found
    basis = Basis(checked="now", read="the reports of the nodes' agents")
    return msgspec.structs.replace(found, usable_mib=usable_mib, usable_basis=basis)


def places_of(fits: Iterable[CardFit], rooms: Iterable[NodeGpus]) -> tuple[RunnableCopies, ...]:
    """Where each yes can run: a stage needs its GPUs on one node, stages may be on several."""
    usable = [room for room in rooms if not room.why_not]
    found = []
    for fit in fits:
        if fit.verdict is not FitVerdict.YES:
            continue
        width, same = fit.tensor_parallel, [room for room in usable if room.card == fit.gpu]
        now = [room for room in same if room.free >= width]
        idle = [room for room in same if room.gpus >= width]
        # A copy is as many stages, and stages may be on different nodes.
        copies_now = sum(room.free // width for room in now) // fit.pipeline_parallel
        copies_idle = sum(room.gpus // width for room in idle) // fit.pipeline_parallel
        found.append(
            RunnableCopies(
                gpu=fit.gpu,
                gpus=fit.gpus,
                tensor_parallel=width,
                pipeline_parallel=fit.pipeline_parallel,
                now=copies_now,
                idle=copies_idle,
                nodes_now=tuple(room.node for room in now) if copies_now else (),
                nodes_idle=tuple(room.node for room in idle) if copies_idle else (),
            )
        )
    return tuple(found)
