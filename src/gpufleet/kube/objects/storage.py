"""Claims, volumes, and what nodes and drivers say about them."""

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.selectors import LabelSelector, NodeSelector
from gpufleet.kube.objects.structure import Structure

# Words of the API for claims, volumes and classes of storage.
STORAGE = "storage"
LOST = "Lost"
AVAILABLE = "Available"
FILESYSTEM = "Filesystem"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeResources(Structure, frozen=True):
    """How much is asked for."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(Structure, frozen=True):
    """What a claim asks for, and the volume that it got."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Structure, frozen=True):
    """How far the claim is."""

    phase: str = ""


class PersistentVolumeClaim(Structure, frozen=True):
    """A claim for storage."""

    metadata: Metadata
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        """The name of its class, where the old annotation goes before the field; "" for none."""
        old = self.metadata.annotations.get(keys.BETA_STORAGE_CLASS)
        return self.spec.storage_class_name or "" if old is None else old

    @property
    def bound(self) -> bool:
        """True once the volume controller finished binding it."""
        return bool(self.spec.volume_name) and keys.BIND_COMPLETED in self.metadata.annotations


class ObjectReference(Structure, frozen=True):
    """A reference to an object by its names."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class CsiSource(Structure, frozen=True):
    """A volume of a CSI driver."""

    driver: str
    volume_handle: str = ""


class InTreeSource(Structure, frozen=True):
    """A volume of a kind that moved to a CSI driver; one of the names is set, by kind."""

    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")


class VolumeNodeAffinity(Structure, frozen=True):
    """Where a volume can be used."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Structure, frozen=True):
    """A volume: its size, its kind, its claim, and where it can be used."""

    capacity: dict[str, str] = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CsiSource | None = None
    gce_persistent_disk: InTreeSource | None = None
    aws_elastic_block_store: InTreeSource | None = None
    azure_disk: InTreeSource | None = None
    cinder: InTreeSource | None = None


class PersistentVolumeStatus(Structure, frozen=True):
    """How far the volume is."""

    phase: str = ""


class PersistentVolume(Structure, frozen=True):
    """A volume."""

    metadata: Metadata
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        """The name of its class, where the old annotation goes before the field; "" for none."""
        return self.metadata.annotations.get(keys.BETA_STORAGE_CLASS, self.spec.storage_class_name)


class TopologySelectorRequirement(Structure, frozen=True):
    """A label and the values allowed for it."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Structure, frozen=True):
    """Requirements that must all hold."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(Structure, frozen=True):
    """A class of storage: its provisioner, and when and where volumes are made."""

    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class DriverAllocatable(Structure, frozen=True):
    """How many volumes can be attached; no count means no limit."""

    count: int | None = None


class CsiNodeDriver(Structure, frozen=True):
    """A driver that runs on the node."""

    name: str
    allocatable: DriverAllocatable | None = None


class CsiNodeSpec(Structure, frozen=True):
    """The drivers that run on the node; the kubelet of a node without any writes null."""

    drivers: tuple[CsiNodeDriver, ...] | None = None


class CsiNode(Structure, frozen=True):
    """What a node's CSI drivers can do."""

    metadata: Metadata
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Structure, frozen=True):
    """Whether the driver reports how much room it has left, and must be on a node that uses its volumes."""

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CsiDriver(Structure, frozen=True):
    """A CSI driver."""

    metadata: Metadata
    spec: CsiDriverSpec = CsiDriverSpec()


class AttachmentSource(Structure, frozen=True):
    """The volume that is attached, where it is one of the cluster's."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Structure, frozen=True):
    """Which volume is, or shall be, attached to which node by which driver."""

    attacher: str
    node_name: str
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Structure, frozen=True):
    """A volume that takes one of the places of a node, from before it is attached until it is detached."""

    metadata: Metadata
    spec: VolumeAttachmentSpec


class CsiStorageCapacity(Structure, frozen=True):
    """How much room a driver has left for a class, on the nodes that are selected."""

    metadata: Metadata
    storage_class_name: str
    capacity: str | None = None
    maximum_volume_size: str | None = None
    node_topology: LabelSelector | None = None
