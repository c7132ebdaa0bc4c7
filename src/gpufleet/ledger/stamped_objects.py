"""Objects of the API as far as the ledger reads them: with every stamp that they carry.

``kube.objects`` drops stamps, since scheduling needs none of them. What else the ledger needs of a pod, such
as its amounts, is read from there.
"""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure

TRUE = "True"
"""The status of a condition that holds."""

READY = "Ready"
"""The condition of pods and of nodes that says whether they can be used."""

POD_SCHEDULED = "PodScheduled"
"""The condition of a pod that its Binding makes true."""

ENDED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that holds nothing any more."""


class ManagedField(Structure, frozen=True):
    """When a writer last changed fields of an object, by the API server's clock."""

    time: str | None = None


class StampedMetadata(Metadata, frozen=True):
    """Metadata with the time of each writer's last change."""

    deletion_grace_period_seconds: int | None = None
    managed_fields: tuple[ManagedField, ...] = ()


class StampedCondition(Structure, frozen=True):
    """A condition, and since when its status is what it is."""

    type: str
    status: str
    last_transition_time: str | None = None


class Run(Structure, frozen=True):
    """A run of a container: when it started, and when it finished if it did."""

    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Structure, frozen=True):
    """What a container does; of one that waits neither is set."""

    running: Run | None = None
    terminated: Run | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The run that this state tells of."""
        return tuple(one for one in (self.running, self.terminated) if one is not None)


class StampedContainerStatus(Structure, frozen=True):
    """The present run of a container and the one before."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()

    @property
    def runs(self) -> tuple[Run, ...]:
        """The two runs, as far as they were."""
        return (*self.state.runs, *self.last_state.runs)


class Probe(Structure, frozen=True):
    """A probe, of which it matters only that it is there."""


class ProbedContainer(Structure, frozen=True):
    """A container, and whether it says by a probe that it is ready."""

    name: str
    readiness_probe: Probe | None = None


class StampedPodSpec(Structure, frozen=True):
    """The containers that have to start."""

    containers: tuple[ProbedContainer, ...] = ()


class StampedPodStatus(Structure, frozen=True):
    """What happened to a pod, with its moments."""

    phase: str = ""
    conditions: tuple[StampedCondition, ...] = ()
    start_time: str | None = None
    container_statuses: tuple[StampedContainerStatus, ...] = ()
    init_container_statuses: tuple[StampedContainerStatus, ...] = ()

    def condition(self, kind: str) -> StampedCondition | None:
        """The condition of this type."""
        return next((one for one in self.conditions if one.type == kind), None)


class StampedPod(Structure, frozen=True):
    """A pod with its stamps."""

    metadata: StampedMetadata
    spec: StampedPodSpec = StampedPodSpec()
    status: StampedPodStatus = StampedPodStatus()


class StampedTaint(Structure, frozen=True):
    """A taint of a node, and since when it is there where its writer says so."""

    key: str
    time_added: str | None = None


class StampedNodeSpec(Structure, frozen=True):
    """What people and controllers set on a node."""

    taints: tuple[StampedTaint, ...] = ()
    unschedulable: bool = False
    provider_id: str = msgspec.field(default="", name="providerID")


class StampedNodeStatus(Structure, frozen=True):
    """What the kubelet reports."""

    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    conditions: tuple[StampedCondition, ...] = ()


class StampedNode(Structure, frozen=True):
    """A node with its stamps."""

    metadata: StampedMetadata
    spec: StampedNodeSpec = StampedNodeSpec()
    status: StampedNodeStatus = StampedNodeStatus()


class StampedObject(Structure, frozen=True):
    """The stamps of an object of any kind that is read elsewhere."""

    metadata: StampedMetadata
