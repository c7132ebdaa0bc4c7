"""A pod as far as scheduling reads it.

Pods are the hot path: a fleet lists tens of thousands. While a pod is decoded, fields that no code reads are
dropped, and what many pods have alike (containers, tolerations, affinity) is kept once.
"""

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.meanings.model_servers import VARIABLES, model_of_address, model_told, started_with
from gpufleet.kube.objects.metadata import PodMetadata
from gpufleet.kube.objects.selectors import LabelSelector, NodeSelector, NodeSelectorTerm
from gpufleet.kube.objects.structure import Shared, Structure

MAXIMUM_SHARED = 10_000
"""More than a fleet has different pod templates; beyond it a table starts anew."""

# Phases, conditions and reasons of the API that scheduling reads.
SUCCEEDED = "Succeeded"
FAILED = "Failed"
POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
RESIZE_PENDING = "PodResizePending"
INFEASIBLE = "Infeasible"
VOLUME_REFUSED = "gpufleet.io/VolumeRefused"
"""The condition of a waiting pod that names nodes on which no volume could be made for its claim."""

EVICTION_REFUSED = "gpufleet.io/EvictionRefused"
"""The condition of a running pod that was to be evicted, with the time until which it is not asked again."""

BIND_REFUSED = "gpufleet.io/BindRefused"
"""The condition of a waiting pod of which Bindings were refused, with the time of the next try."""

GANG_SHORT = "gpufleet.io/GangShort"
"""The condition of one running member of a gang that is short of members: since when, and whether it ran."""

NOMINATED = "gpufleet.io/Nominated"
"""The condition of a waiting pod of no FleetQueue that says which place is kept for it."""

NODES_CHOSEN = "gpufleet.io/NodesChosen"
"""The condition of a waiting pod that says whether nodes were chosen for it, or none are asked for."""

KUBELET_REASONS = frozenset(
    {"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "AdmissionFailed"}
)
"""Reasons for a pod's end that only a kubelet gives; "OutOf..." with a resource's name counts as well."""

# The conditions of a pod that are a scheduler's business.
CONDITIONS = (
    POD_SCHEDULED,
    DISRUPTION_TARGET,
    RESIZE_PENDING,
    VOLUME_REFUSED,
    EVICTION_REFUSED,
    BIND_REFUSED,
    GANG_SHORT,
    NOMINATED,
    NODES_CHOSEN,
)
ALWAYS = "Always"
STORAGE_INITIALIZER = "storage-initializer"
"""The init container by which KServe copies a model, with the model's address as an argument."""


class ContainerResources(Structure, frozen=True):
    """Amounts by resource name."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)
    limits: dict[str, str] = msgspec.field(default_factory=dict)


class ContainerPort(Structure, frozen=True):
    """A port; only one of the host's is a matter for scheduling."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class VolumeMount(Structure, frozen=True):
    """How a volume is mounted, as far as a node must know how to do it."""

    bind_mount_options: tuple[str, ...] = ()


class EnvironmentVariable(Structure, frozen=True):
    """A variable of a container's environment, where it is one that decides about placement."""

    name: str
    value: str = ""


class RestartRule(Structure, frozen=True):
    """What the end of a container brings about."""

    action: str = ""


class Container(Structure, frozen=True):
    """A container or init container; an init container that restarts always is a sidecar.

    The image is kept where its name may tell of CUDA, or where the container asks for devices. Of command,
    arguments and variables only which model a known server loads is kept, as the shortest command that says
    so.
    """

    name: str
    resources: ContainerResources = ContainerResources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    image: str = ""
    env: tuple[EnvironmentVariable, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        keep = msgspec.structs.force_setattr
        if self.command or self.args or self.env:
            model = self._model_read()
            keep(self, "command", started_with(model) if model else ())
            keep(self, "args", ())
        # Images and variables differ between pods that are alike in all else.
        if self.image and not (self.asks_for_devices or _may_name_cuda(self.image)):
            keep(self, "image", "")
        if self.env:
            keep(self, "env", tuple(one for one in self.env if one.name in keys.CUDA_VARIABLES))

    def _model_read(self) -> str:
        """The model that the container loads or copies, "" for none that is known."""
        if self.name == STORAGE_INITIALIZER:
            told = (model_of_address(one) for one in self.args)
            found = next((one for one in told if one), "")
            if found:
                return found
        variables = {one.name: one.value for one in self.env if one.name in VARIABLES}
        if not (self.command or self.args or variables):
            return ""
        return model_told((*self.command, *self.args), self.image, variables)

    @property
    def model(self) -> str:
        """The model that it reads, as ORG/NAME or ORG/NAME@REVISION; "" where none is known."""
        return model_told(self.command, "", {}) if self.command else ""

    @property
    def asks_for_devices(self) -> bool:
        """True if it asks for a resource of a vendor: these have a domain and a slash."""
        return any("/" in name for name in self.resources.limits)

    @property
    def restartable(self) -> bool:
        """True for a sidecar, where this is an init container."""
        return self.restart_policy == ALWAYS


def _may_name_cuda(image: str) -> bool:
    return "cu" in image or "CU" in image


class PreferredNodeTerm(Structure, frozen=True):
    """A wish about the node, with its weight."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Structure, frozen=True):
    """Which nodes may be used, and which had better be."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredNodeTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Structure, frozen=True):
    """Other pods, and the domain (node, rack, zone) to share, or not to share, with them."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Structure, frozen=True):
    """A wish about neighbours, with its weight."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Structure, frozen=True):
    """Affinity to, or against, other pods."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Structure, frozen=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Structure, frozen=True):
    """Which taints are put up with; for how long is not the scheduler's business."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Structure, frozen=True):
    """How evenly pods must be spread."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class ClaimSource(Structure, frozen=True):
    """A volume that is a PersistentVolumeClaim."""

    claim_name: str


class Present(Structure, frozen=True):
    """A part of which it matters only that it is there."""


class InTreeDisk(Structure, frozen=True):
    """A disk of a cloud, written into the pod; one of the names is set, by kind of disk."""

    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    read_only: bool = False


class ImageSource(Structure, frozen=True):
    """A volume that is the content of an image or of an artifact in a registry."""

    reference: str = ""


class Volume(Structure, frozen=True):
    """A volume of the pod, if it is of a kind that decides where the pod may run, or how soon it is ready."""

    name: str
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: InTreeDisk | None = None
    aws_elastic_block_store: InTreeDisk | None = None
    azure_disk: InTreeDisk | None = None
    cinder: InTreeDisk | None = None
    image: ImageSource | None = None

    @property
    def decides(self) -> bool:
        """True if the volume has a say in where the pod may run."""
        claimed = self.persistent_volume_claim is not None or self.ephemeral is not None
        disks = (self.gce_persistent_disk, self.aws_elastic_block_store, self.azure_disk, self.cinder)
        return claimed or any(disk is not None for disk in disks)


class SchedulingGate(Structure, frozen=True):
    """Something that must happen before the pod may be scheduled."""

    name: str


class ResourceClaimUse(Structure, frozen=True):
    """A claim of devices by dynamic resource allocation: one that is there, or one made of a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ResourceClaimMade(Structure, frozen=True):
    """The claim that was made of a template for the use of this name; None where none is needed."""

    name: str
    resource_claim_name: str | None = None


class ExtendedResourceUse(Structure, frozen=True):
    """A container and its resource, and the request of a claim that has the devices for it."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedResourceClaim(Structure, frozen=True):
    """The claim by which a pod has the devices that it asks for by number."""

    resource_claim_name: str = ""
    request_mappings: tuple[ExtendedResourceUse, ...] = ()


class SchedulingGroup(Structure, frozen=True):
    """The PodGroup of Kubernetes 1.36 and later that the pod belongs to."""

    pod_group_name: str | None = None


class WorkloadReference(Structure, frozen=True):
    """How Kubernetes 1.35 named the group: a template of a Workload, and perhaps a replica."""

    name: str
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodOperatingSystem(Structure, frozen=True):
    """The operating system of the pod's containers."""

    name: str = ""


# Parts that the pods of one template have alike are kept once.
_CONTAINERS = Shared(MAXIMUM_SHARED)
_TOLERATIONS = Shared(MAXIMUM_SHARED)
_AFFINITY = Shared(MAXIMUM_SHARED)
_SPREAD = Shared(MAXIMUM_SHARED)


class PodSpec(Structure, frozen=True):
    """What is asked for a pod."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    scheduler_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    overhead: dict[str, str] = msgspec.field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[ResourceClaimUse, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    host_network: bool = False
    host_users: bool | None = None
    os: PodOperatingSystem | None = None
    resources: ContainerResources | None = None
    active_deadline_seconds: int | None = None

    def __post_init__(self) -> None:
        keep = msgspec.structs.force_setattr
        keep(self, "containers", _CONTAINERS.one(self.containers))
        if self.init_containers:
            keep(self, "init_containers", _CONTAINERS.one(self.init_containers))
        if self.tolerations:
            keep(self, "tolerations", _TOLERATIONS.one(self.tolerations))
        if self.affinity is not None:
            keep(self, "affinity", _AFFINITY.one(self.affinity))
        if self.topology_spread_constraints:
            keep(self, "topology_spread_constraints", _SPREAD.one(self.topology_spread_constraints))
        if self.volumes:
            keep(self, "volumes", tuple(one for one in self.volumes if one.decides or one.image is not None))


class PodCondition(Structure, frozen=True):
    """A condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Structure, frozen=True):
    """The amounts that a container was allocated and those that it runs with, while it is resized."""

    name: str = ""
    allocated_resources: dict[str, str] | None = None
    resources: ContainerResources | None = None

    def is_as_asked(self, container: Container) -> bool:
        """True if its amounts are those of its spec."""
        asked = container.resources.requests
        running = None if self.resources is None else self.resources.requests or None
        return all(amounts is None or amounts == asked for amounts in (self.allocated_resources, running))


class PodStatus(Structure, frozen=True):
    """What is so; of the conditions those that are a scheduler's business.

    The amounts by container and of the pod as a whole are kept only while they are not as asked.
    """

    phase: str = ""
    reason: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[ResourceClaimMade, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaim | None = None
    allocated_resources: dict[str, str] | None = None
    resources: ContainerResources | None = None

    def __post_init__(self) -> None:
        if self.conditions:
            kept = tuple(condition for condition in self.conditions if condition.type in CONDITIONS)
            msgspec.structs.force_setattr(self, "conditions", kept)

    @property
    def all_containers(self) -> tuple[ContainerStatus, ...]:
        """The statuses of all containers, init containers included."""
        return (*self.container_statuses, *self.init_container_statuses)


class Pod(Structure, frozen=True):
    """A pod."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus = PodStatus()

    def __post_init__(self) -> None:
        status = self.status
        if (status.container_statuses or status.init_container_statuses) and self._is_as_asked():
            for name in ("container_statuses", "init_container_statuses"):
                msgspec.structs.force_setattr(status, name, ())
            for name in ("allocated_resources", "resources"):
                msgspec.structs.force_setattr(status, name, None)

    def _is_as_asked(self) -> bool:
        """True if nothing says that a container has other amounts than its spec; so it is nearly always."""
        asked = {one.name: one for one in (*self.spec.containers, *self.spec.init_containers)}
        found = self.status.all_containers
        return all(one.name in asked and one.is_as_asked(asked[one.name]) for one in found)

    @property
    def resized(self) -> bool:
        """True if it may hold other amounts than its spec says now."""
        return bool(self.status.all_containers)

    @property
    def terminal(self) -> bool:
        """True if all its containers ended for good: its room is free."""
        return self.status.phase in {SUCCEEDED, FAILED}

    @property
    def rejection(self) -> str:
        """The kubelet's reason if it turned the pod away, "" for any other end."""
        reason = self.status.reason
        is_rejection = reason in KUBELET_REASONS or reason.lower().startswith("outof")
        return reason if self.status.phase == FAILED and is_rejection else ""

    @property
    def gated(self) -> bool:
        """True while a controller has not yet lifted its scheduling gate."""
        return bool(self.spec.scheduling_gates)

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of this type; None if there is none."""
        return next((condition for condition in self.status.conditions if condition.type == kind), None)
