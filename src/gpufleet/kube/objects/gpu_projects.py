"""GpuProject: the namespaces of a team, as an administrator writes them, and what the operator tells of it.

Cluster-scoped. ``manifests`` holds the definition that the API server checks, ``codec.gpu_projects`` says
what the spec means, ``codec.project_status`` writes the status.
"""

import msgspec

from gpufleet.kube.objects.fleet_queues import Condition
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure

READY = "Ready"
"""The condition of a project: whether everything that it says is there."""


class MemberSpec(Structure, frozen=True):
    """A user or a group with a role."""

    role: str
    user: str = ""
    group: str = ""


class OwnerLimitsSpec(Structure, frozen=True):
    """Within what owners add namespaces."""

    namespaces_max: int = 0
    namespace_prefix: str = ""


class OwnQueueQuotaSpec(Structure, frozen=True):
    """What the project's own queue has of one resource."""

    resource: str
    nominal: int | str | None = None
    borrowing_limit: int | str | None = None
    hard_limit: int | str | None = None


class OwnQueueSpec(Structure, frozen=True):
    """The FleetQueue that is made for the project."""

    parent: str = ""
    quotas: tuple[OwnQueueQuotaSpec, ...] = ()


class NetworkSpec(Structure, frozen=True):
    """What the pods of the namespaces may reach, and what may reach them."""

    egress: tuple[str, ...] = ()
    ingress_namespaces: tuple[str, ...] = ()


class ImagesSpec(Structure, frozen=True):
    """How images are judged."""

    policy: str
    registries: tuple[str, ...] = ()


class IdleRuleSpec(Structure, frozen=True):
    """When idle notebooks and model servers are parked, as lengths of time."""

    after: str
    warning: str | None = None


class GpuProjectSpec(Structure, frozen=True):
    """What is asked for; defaults are those of the definition."""

    namespaces: tuple[str, ...]
    team: str = ""
    members: tuple[MemberSpec, ...] = ()
    owner_limits: OwnerLimitsSpec = OwnerLimitsSpec()
    queue: str = ""
    own_queue: OwnQueueSpec | None = None
    namespace_quota: dict[str, int | str] = msgspec.field(default_factory=dict)
    container_defaults: dict[str, int | str] = msgspec.field(default_factory=dict)
    pod_security: str = "Restricted"
    network: NetworkSpec = NetworkSpec()
    images: ImagesSpec | None = None
    idle_rule: IdleRuleSpec | None = None
    tolerated_taints: tuple[str, ...] | None = None


class GpuProjectStatus(Structure, frozen=True):
    """What the leading operator told last.

    ``namespaces`` are those that the project has or had and that are still there: the limit of owners counts
    them all.
    """

    observed_generation: int | None = None
    namespaces: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class GpuProject(Structure, frozen=True):
    """A project. Its status is kept as it came: what is wrong in it does not make the project unreadable."""

    metadata: Metadata
    spec: GpuProjectSpec
    status: msgspec.Raw = msgspec.Raw(b"{}")


_STATUS = msgspec.json.Decoder(GpuProjectStatus)


def project_status_of(project: GpuProject) -> GpuProjectStatus:
    """The status as it stands; an empty one where it cannot be read, because another writer changed it."""
    try:
        return _STATUS.decode(project.status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return GpuProjectStatus()
