"""Pods as the controller of services reads them: whose replica a pod is, its GPUs, and why it waits."""

from collections.abc import Mapping

import msgspec

from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.pod import ContainerResources
from gpufleet.kube.objects.structure import Structure
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import GPU_RESOURCES

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Of the replicas of a ReplicaSet the one with the least cost ends first."""

OUR_COST = "gpufleet.io/deletion-cost"
"""What we wrote there: a cost that differs from it is its owner's own."""

ENDED = frozenset({"Succeeded", "Failed"})
POD_SCHEDULED = "PodScheduled"


class ServiceContainer(Structure, frozen=True):
    """A container's amounts."""

    resources: ContainerResources = ContainerResources()


class ServicePodSpec(Structure, frozen=True):
    """Where a pod is, and what it asks for."""

    containers: tuple[ServiceContainer, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""


class ServiceCondition(Structure, frozen=True):
    """One condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ServicePodStatus(Structure, frozen=True):
    """How far a pod is."""

    phase: str = ""
    conditions: tuple[ServiceCondition, ...] = ()


class ServicePod(Structure, frozen=True):
    """A pod."""

    metadata: Metadata
    spec: ServicePodSpec = ServicePodSpec()
    status: ServicePodStatus = ServicePodStatus()

    @property
    def gpus(self) -> int:
        """The whole GPUs that it asks for."""
        return sum(_gpus(one.resources) for one in self.spec.containers)

    @property
    def is_there(self) -> bool:
        """Whether it takes room: it has not ended and is not told to."""
        return self.status.phase not in ENDED and self.metadata.deletion_timestamp is None

    @property
    def waits(self) -> ServiceCondition | None:
        """Why it has no place; None where it has one, or nothing was said yet."""
        if self.spec.node_name or not self.is_there:
            return None
        return next(
            (one for one in self.status.conditions if one.type == POD_SCHEDULED and one.status == "False"),
            None,
        )

    @property
    def created_us(self) -> int:
        """When it was made, in microseconds since 1970; far in the past where that cannot be read."""
        try:
            return microseconds(self.metadata.creation_timestamp)
        except InputError:
            return 0

    @property
    def replica_set(self) -> tuple[str, str] | None:
        """Namespace and name of the ReplicaSet that made it."""
        owner = self.metadata.controller
        return (
            (self.metadata.namespace, owner.name)
            if owner is not None and owner.kind == "ReplicaSet"
            else None
        )


def _gpus(resources: ContainerResources) -> int:
    return whole_gpus({**resources.requests, **resources.limits})


def whole_gpus(amounts: Mapping[str, str]) -> int:
    """The whole GPUs among amounts of resources."""
    return sum(int(text) for name in GPU_RESOURCES if (text := amounts.get(name, "")).isdecimal())


class ServiceNodeStatus(Structure, frozen=True):
    """What pods can have of a node."""

    allocatable: dict[str, str] = msgspec.field(default_factory=dict)


class ServiceNode(Structure, frozen=True):
    """A node."""

    metadata: Metadata
    status: ServiceNodeStatus = ServiceNodeStatus()

    @property
    def gpus(self) -> int:
        """The whole GPUs that it has."""
        return whole_gpus(self.status.allocatable)
