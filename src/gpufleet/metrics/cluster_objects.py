"""Pods, nodes and queues as far as metrics need them, and the ConfigMap about callers, all watched.

A pod is kept with its labels, its place and its ports; everything else of it is dropped while it is decoded.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Vanished
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import CONFIG_MAPS, FLEET_QUEUES, NODES, PODS
from gpufleet.metrics.callers import request_header
from gpufleet.metrics.callers.request_header import AuthenticationMap, FrontProxy, read_front_proxy
from gpufleet.metrics.reading import NODE_KIND, POD_KIND, ObjectKey, ObjectKind

READ_ANNOTATIONS = (keys.METRICS_PORT, keys.METRICS_PATH)
ENDED = ("Succeeded", "Failed")


class PodMetadata(Metadata, frozen=True):
    """A pod's metadata with the annotations that say where its page of metrics is."""

    def __post_init__(self) -> None:
        kept = {key: self.annotations[key] for key in READ_ANNOTATIONS if key in self.annotations}
        msgspec.structs.force_setattr(self, "annotations", kept)


class ContainerPort(Structure, frozen=True):
    """A port by its name."""

    container_port: int = 0
    name: str = ""


class Container(Structure, frozen=True):
    """The ports of a container."""

    ports: tuple[ContainerPort, ...] = ()


class PodSpec(Structure, frozen=True):
    """Where it is, and its ports."""

    node_name: str = ""
    host_network: bool = False
    containers: tuple[Container, ...] = ()


class PodCondition(Structure, frozen=True):
    """A condition of a pod."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Structure, frozen=True):
    """A pod's address, its phase, and whether it is ready."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[PodCondition, ...] = ()


class PodFacts(Structure, frozen=True):
    """A pod."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.status.phase in ENDED

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of this type."""
        return next((one for one in self.status.conditions if one.type == kind), None)


class NodeAddress(Structure, frozen=True):
    """An address of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(Structure, frozen=True):
    """The addresses of a node."""

    addresses: tuple[NodeAddress, ...] = ()


class NodeFacts(Structure, frozen=True):
    """A node."""

    metadata: Metadata
    status: NodeStatus = NodeStatus()

    @property
    def address(self) -> str:
        """The pod's address inside the cluster; "" if it has none."""
        return next((one.address for one in self.status.addresses if one.type == "InternalIP"), "")


class QueueFacts(Structure, frozen=True):
    """A FleetQueue."""

    metadata: Metadata


Followed = PodFacts | NodeFacts | QueueFacts


class ClusterObjects:
    """What is followed, as a directory of objects for ``served_values``."""

    def __init__(self, client: Client) -> None:
        self._pods_by_namespace: dict[str, set[ObjectKey]] = {}
        self.pods: Mirror[PodFacts] = Mirror(client, PODS, msgspec.json.Decoder(PodFacts), self._on_pod)
        self.nodes: Mirror[NodeFacts] = Mirror(client, NODES, msgspec.json.Decoder(NodeFacts), _ignored)
        self.queues: Mirror[QueueFacts] = Mirror(
            client, FLEET_QUEUES, msgspec.json.Decoder(QueueFacts), _ignored, optional=True
        )
        self.authentication: Mirror[AuthenticationMap] = Mirror(
            client,
            CONFIG_MAPS,
            msgspec.json.Decoder(AuthenticationMap),
            self._on_authentication,
            namespace=request_header.NAMESPACE,
            selection=Selection(fields=f"metadata.name={request_header.NAME}"),
        )
        self.front_proxy: FrontProxy = request_header.NO_FRONT_PROXY

    @property
    def mirrors(
        self,
    ) -> tuple[Mirror[PodFacts] | Mirror[NodeFacts] | Mirror[QueueFacts] | Mirror[AuthenticationMap], ...]:
        """All that is followed."""
        return self.pods, self.nodes, self.queues, self.authentication

    def labels(self, key: ObjectKey) -> Mapping[str, str] | None:
        """The labels of an object; None if there is none."""
        found = self._mirror_of(key.resource).objects.get((key.namespace, key.name))
        return None if found is None else found.metadata.labels

    def all_of(self, kind: ObjectKind, namespace: str) -> Iterable[ObjectKey]:
        """The objects of a kind, of a namespace or, with "", of all."""
        if kind is POD_KIND:
            return list(self._pods_by_namespace.get(namespace, ()))
        objects = self._mirror_of(kind.resource).objects
        return [ObjectKey(kind.resource, *key) for key in objects]

    def pods_of(self, namespace: str) -> list[PodFacts]:
        """The pods of a namespace that have not ended."""
        keys_there = sorted(self._pods_by_namespace.get(namespace, ()))
        found = (self.pods.get(key.name, key.namespace) for key in keys_there)
        return [pod for pod in found if pod is not None and not pod.has_ended]

    def _mirror_of(self, resource: str) -> Mirror[PodFacts] | Mirror[NodeFacts] | Mirror[QueueFacts]:
        if resource == POD_KIND.resource:
            return self.pods
        return self.nodes if resource == NODE_KIND.resource else self.queues

    def _on_pod(self, change: Change[PodFacts]) -> None:
        match change:
            case Appeared(pod):
                metadata = pod.metadata
                key = ObjectKey(POD_KIND.resource, metadata.namespace, metadata.name)
                self._pods_by_namespace.setdefault(metadata.namespace, set()).add(key)
            case Vanished(pod):
                metadata = pod.metadata
                there = self._pods_by_namespace.get(metadata.namespace, set())
                there.discard(ObjectKey(POD_KIND.resource, metadata.namespace, metadata.name))
                if not there:
                    self._pods_by_namespace.pop(metadata.namespace, None)
            case _:
                pass

    def _on_authentication(self, change: Change[AuthenticationMap]) -> None:
        match change:
            case Appeared(written):
                self.front_proxy = read_front_proxy(written)
            case Vanished():
                self.front_proxy = read_front_proxy(None)
            case Changed():
                self.front_proxy = read_front_proxy(change.after)
            case _:
                pass


def _ignored(_: object) -> None:
    """The mirror's own copy is all that is needed."""
