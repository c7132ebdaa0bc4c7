"""Our view of the cluster: one mirror for each kind that a decision may depend on.

Mirrors put their changes on the ``change_queue``; readers look objects up here and always find the newest.
Kinds that a cluster may not have installed are optional: they are empty then.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpufleet.cluster.watching.change_queue import ChangeQueue
from gpufleet.cluster.watching.retained_kind import RetainedKind
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.gangs import FOLLOWED
from gpufleet.kube.mirror import Health, Mirror, Pace
from gpufleet.kube.objects.disruption import PodDisruptionBudget
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.objects.namespace import Namespace
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_data import NodeData
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.node_pools import NodePool
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod, PodCondition
from gpufleet.kube.objects.provisioning_requests import ProvisioningRequest
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.objects.resource_slices import (
    DeviceClassObject,
    DeviceTaintRuleObject,
    ResourceSliceObject,
)
from gpufleet.kube.objects.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from gpufleet.kube.replica import Identity
from gpufleet.kube.resources import Kind
from gpufleet.model.identifiers import NodeName
from gpufleet.model.pod_name import PodName

NO_NODE = NodeName("")
"""A pod without a nominated node."""


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod that waits, as it was seen last: its version, and its condition PodScheduled if that is False.

    ``readable`` is False for a pod of which only the version is known. ``nominated`` is the node that its
    status says is kept for it.
    """

    version: str
    condition: PodCondition | None = None
    readable: bool = True
    nominated: NodeName = NO_NODE


class Watched(msgspec.Struct, frozen=True):
    """A kind to mirror, and what its objects are read as.

    The objects of one that ``lasts`` count on when their whole kind is taken away.
    """

    kind: Kind
    type: type[Any]
    optional: bool = False
    lasts: bool = False


CLAIM_KINDS = (
    Watched(resources.RESOURCE_CLAIMS, ResourceClaimObject, optional=True),
    Watched(resources.RESOURCE_SLICES, ResourceSliceObject, optional=True),
    Watched(resources.DEVICE_CLASSES, DeviceClassObject, optional=True),
    Watched(resources.DEVICE_TAINT_RULES, DeviceTaintRuleObject, optional=True),
)
"""What claims are judged by. Clusters before Kubernetes 1.34 have none of it, before 1.37 no taint rules."""

# Every kind that a decision may depend on, with its type here; optional kinds may not be installed.
WATCHED = (
    Watched(resources.PODS, Pod),
    Watched(resources.NODES, Node),
    Watched(resources.NAMESPACES, Namespace),
    Watched(resources.NODE_DEVICES, NodeDevices, optional=True),
    Watched(resources.NODE_DATA, NodeData, optional=True),
    Watched(resources.FLEET_QUEUES, FleetQueue, optional=True, lasts=True),
    Watched(resources.POD_DISRUPTION_BUDGETS, PodDisruptionBudget),
    Watched(resources.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim),
    Watched(resources.PERSISTENT_VOLUMES, PersistentVolume),
    Watched(resources.STORAGE_CLASSES, StorageClass),
    Watched(resources.CSI_NODES, CsiNode),
    Watched(resources.CSI_DRIVERS, CsiDriver),
    Watched(resources.CSI_STORAGE_CAPACITIES, CsiStorageCapacity),
    Watched(resources.VOLUME_ATTACHMENTS, VolumeAttachment),
    *CLAIM_KINDS,
    *(Watched(kind, meant, optional=True) for kind, meant in FOLLOWED),
)

FOLLOWED_BY_SCHEDULER = (
    *WATCHED,
    Watched(resources.NODE_POOLS, NodePool, optional=True),
    Watched(resources.PROVISIONING_REQUESTS, ProvisioningRequest, optional=True),
)
"""What the scheduler watches. From the last two follows what it asks autoscalers for, and no decision."""


class Cluster:
    """The mirrors by kind."""

    def __init__(
        self, client: Client, change_queue: ChangeQueue, watched: Iterable[Watched], pace: Pace
    ) -> None:
        watched = tuple(watched)
        self.lasting = {
            one.kind: RetainedKind(client, one.kind, change_queue.sink(one.kind))
            for one in watched
            if one.lasts
        }
        self.mirrors: dict[Kind, Mirror[Any]] = {
            one.kind: Mirror(
                client,
                one.kind,
                msgspec.json.Decoder(one.type),
                self.lasting[one.kind].hear if one.lasts else change_queue.sink(one.kind),
                optional=one.optional,
                pace=pace,
            )
            for one in watched
        }

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """An object as we last heard of it; None if there is none, or none that can be read."""
        mirror = self.mirrors.get(kind)
        found = None if mirror is None else mirror.get(name, namespace)
        lasting = self.lasting.get(kind)
        return found if found is not None or lasting is None else lasting.kept.get((namespace, name))

    def all(self, kind: Kind) -> Iterable[Any]:
        """All objects of a kind."""
        mirror, lasting = self.mirrors.get(kind), self.lasting.get(kind)
        if mirror is None:
            return ()
        return mirror.objects.values() if lasting is None else lasting.all(mirror.objects)

    def serves(self, kind: Kind) -> bool:
        """Whether the server knows a kind, as far as was heard."""
        mirror = self.mirrors.get(kind)
        return mirror is not None and mirror.served

    def kept(self) -> dict[Kind, int]:
        """How many objects of each kind count although the kind is served no more."""
        return {kind: len(one.kept) for kind, one in self.lasting.items() if one.withdrawn}

    def unreadable(self, kind: Kind) -> Mapping[tuple[str, str], Identity]:
        """Objects of which the newest version cannot be decoded, by namespace and name."""
        return self.mirrors[kind].unreadable

    def waiting_pod(self, name: PodName) -> WaitingPod | None:
        """A pod as its owner can still be told why it waits; None for one that has a node, or is gone."""
        mirror: Mirror[Pod] = self.mirrors[resources.PODS]
        broken = mirror.unreadable.get((name.namespace, name.name))
        if broken is not None:
            return WaitingPod(broken.resource_version, readable=False) if broken.uid == name.uid else None
        pod = mirror.get(name.name, name.namespace)
        if pod is None or pod.metadata.uid != name.uid or pod.spec.node_name:
            return None
        condition = pod.condition(POD_SCHEDULED)
        waits = condition if condition is not None and condition.status == "False" else None
        nominated = NodeName(pod.status.nominated_node_name)
        return WaitingPod(pod.metadata.resource_version, waits, nominated=nominated)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in self.mirrors.values():
                group.create_task(mirror.run())
            for lasting in self.lasting.values():
                group.create_task(lasting.run())

    async def wait_listed(self) -> None:
        """Return when every kind was listed once."""
        for mirror in self.mirrors.values():
            await mirror.wait_listed()

    def health(self) -> dict[Kind, Health]:
        """How each mirror is doing."""
        return {kind: mirror.health() for kind, mirror in self.mirrors.items()}
