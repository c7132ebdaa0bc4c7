"""What one version of an object says to the ledger, with the moment of that version.

A moment is the latest stamp of the API server in the object, so two readers of one version agree about it.
``number`` is the object's resourceVersion, which orders the versions of one object and of a list.
``interval_log`` takes these values in any order; ``object_versions`` reads them from the wire.
"""

import enum

import msgspec

from gpufleet.ledger.price_book import PricedNode
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName


class ObjectKind(enum.StrEnum):
    """Kinds of objects that the ledger follows."""

    POD = "pod"
    NODE = "node"
    DEVICES = "devices"
    QUEUE = "queue"


class PodVersion(msgspec.Struct, frozen=True, tag="pod"):
    """A version of a pod. Moments that have not come are None.

    ``devices`` are those of its grant. ``gang_members`` is how many members its gang needs at least.
    ``started_us`` is when the last of its containers had started, ``deletion_us`` when its deletion was
    asked for, ``ended_us`` when it came to its terminal phase. ``was_ready`` says that it was ready at some
    time, also where nothing tells since when, and ``was_started`` so of its containers.
    """

    uid: PodUid
    number: int
    at_us: int
    namespace: str = ""
    name: str = ""
    queue: QueueName = QueueName("")
    labels: tuple[tuple[str, str], ...] = ()
    owner: str = ""
    node: NodeName = NodeName("")
    bound_us: int | None = None
    epoch: int = 0
    devices: tuple[GrantedDevice, ...] = ()
    gang: str = ""
    gang_members: int = 1
    cpu_milli: int = 0
    memory_bytes: int = 0
    started_us: int | None = None
    ready_us: int | None = None
    was_ready: bool = False
    was_started: bool = False
    has_readiness_probe: bool = False
    deletion_us: int | None = None
    ended_us: int | None = None


class NodeVersion(msgspec.Struct, frozen=True, tag="node"):
    """A version of a node. ``joins`` is true while it is not ready or has a startup taint; ``drains`` while
    it is cordoned or about to be removed; each since the moment beside it, where the node tells one.
    """

    uid: str
    number: int
    at_us: int
    node: NodeName
    created_us: int
    joins: bool = False
    drains: bool = False
    joins_since_us: int | None = None
    drains_since_us: int | None = None
    priced_as: PricedNode = PricedNode()
    provider_id: str = ""
    cpu_milli: int = 0
    memory_bytes: int = 0


class DeviceState(msgspec.Struct, frozen=True):
    """A GPU, or a part of one that is asked for as a GPU.

    ``ill`` is "" for a healthy one, else its state, since
    ``ill_since_us`` where the agent tells it.
    """

    id: DeviceId
    model: str = ""
    usable_mib: int | None = None
    ill: str = ""
    ill_since_us: int | None = None


class DeviceHolder(msgspec.Struct, frozen=True):
    """A pod that really holds a device or a part of it."""

    pod_uid: PodUid
    device: GrantedDevice


class DevicesVersion(msgspec.Struct, frozen=True, tag="devices"):
    """A version of what the agent of a node reports of its GPUs, in an object made at ``created_us``."""

    uid: str
    number: int
    at_us: int
    node: NodeName
    devices: tuple[DeviceState, ...] = ()
    holders: tuple[DeviceHolder, ...] = ()
    created_us: int | None = None


class KeptPlace(msgspec.Struct, frozen=True, order=True):
    """A device that is kept for work of a queue."""

    node: NodeName
    device: DeviceId


class QueueVersion(msgspec.Struct, frozen=True, tag="queue"):
    """A version of a queue, with the devices of its reservation and its nominations."""

    uid: str
    number: int
    at_us: int
    queue: QueueName
    places: tuple[KeptPlace, ...] = ()


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """An object was deleted, and the deletion was seen. ``number`` is the version of the deletion."""

    kind: ObjectKind
    uid: str
    number: int
    at_us: int


class Listed(msgspec.Struct, frozen=True, tag="listed"):
    """All objects of a kind at version ``number`` of the server; of pods those that had not ended."""

    kind: ObjectKind
    number: int
    at_us: int
    uids: frozenset[str]


class Followed(msgspec.Struct, frozen=True, tag="followed"):
    """Every change of a kind in that time was seen; at other times objects may have come and gone unseen."""

    kind: ObjectKind
    from_us: int
    until_us: int


class Sampled(msgspec.Struct, frozen=True, tag="sampled"):
    """What is known of that time is from samples of a Prometheus: what happened between two is not known."""

    from_us: int
    until_us: int


ObjectVersion = PodVersion | NodeVersion | DevicesVersion | QueueVersion
Observation = ObjectVersion | Gone | Listed | Followed | Sampled

KINDS: dict[type[ObjectVersion], ObjectKind] = {
    PodVersion: ObjectKind.POD,
    NodeVersion: ObjectKind.NODE,
    DevicesVersion: ObjectKind.DEVICES,
    QueueVersion: ObjectKind.QUEUE,
}
"""The kind of object that each version is of."""
