"""What the words of a finding may say beyond what the engine knows.

The engine decides without any of it. A shell that has read the cluster's objects hands it in, so that an
answer can name the class of a claim or the driver of a node. Where nothing is known the words are shorter;
cause and verdict are the same.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from gpufleet.model.cuda_compatibility import DriverVersion, Toolkit
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.labels import NodeAffinity


class Names(msgspec.Struct, frozen=True):
    """How people write what a way out asks them to change; "" where that is not known."""

    gpus_within: str = ""
    cuda_version: str = ""
    gpu_health: str = ""
    reports: str = ""


class UsedVolume(msgspec.Struct, frozen=True):
    """A volume to which a claim of a pod is bound, and the nodes that it can be used on."""

    claim: str
    volume: str
    reach: NodeAffinity


class NeededToolkit(msgspec.Struct, frozen=True):
    """A version of CUDA that a pod needs, and what says so ("image nvidia/cuda:13.0.1-base")."""

    toolkit: Toolkit
    told_by: str


class ObjectDetails(Protocol):
    """Answers of a shell about what no event tells the engine."""

    @property
    def names(self) -> Names:
        """How people write what they may change."""
        ...

    def reports_are_served(self) -> bool:
        """Whether the server knows the kind in which agents report devices."""
        ...

    def unread_report(self, node: NodeName) -> str:
        """Why the report of a node's devices cannot be read; "" where it can, or is not there."""
        ...

    def left_alone_until(self, node: NodeName) -> str:
        """Until when nothing new is placed on a node whose kubelet turned pods away; "" where not known."""
        ...

    def sickness(self, node: NodeName, device: DeviceId) -> str:
        """What is said of a device that is not healthy; "" for nothing."""
        ...

    def foreign_holders(self, node: NodeName) -> Iterable[tuple[str, str]]:
        """The devices of a node that a process of no pod holds, and what is said of that process."""
        ...

    def uncounted_instances(self, node: NodeName, resource: str) -> Iterable[tuple[str, str]]:
        """The GPUs of a node with an instance of this resource that no pod's request is charged for, each
        with what is said of the holder.
        """
        ...

    def driver(self, node: NodeName) -> DriverVersion | None:
        """The version of a node's driver; None where it is not known."""
        ...

    def needed_toolkits(self, pod: PodUid, features: AbstractSet[str]) -> Iterable[NeededToolkit]:
        """The versions of CUDA for which the pod needs these features of nodes."""
        ...

    def storage_class(self, claim: str) -> str:
        """The storage class of a claim ("namespace/name"); "" where it is not known."""
        ...

    def volumes(self, pod: PodUid) -> Iterable[UsedVolume]:
        """The volumes to which the pod's claims are bound."""
        ...


class NoObjectDetails:
    """Nothing is known beyond what the engine was told."""

    names = Names()

    def reports_are_served(self) -> bool:
        """Nothing speaks against it."""
        return True

    def unread_report(self, _node: NodeName) -> str:
        """No report was seen."""
        return ""

    def left_alone_until(self, _node: NodeName) -> str:
        """No moment is known."""
        return ""

    def sickness(self, _node: NodeName, _device: DeviceId) -> str:
        """Nothing is said."""
        return ""

    def foreign_holders(self, _node: NodeName) -> Iterable[tuple[str, str]]:
        """No process is known."""
        return ()

    def uncounted_instances(self, _node: NodeName, _resource: str) -> Iterable[tuple[str, str]]:
        """No instance is known."""
        return ()

    def driver(self, _node: NodeName) -> DriverVersion | None:
        """No driver is known."""
        return None

    def needed_toolkits(self, _pod: PodUid, _features: AbstractSet[str]) -> Iterable[NeededToolkit]:
        """No image was read."""
        return ()

    def storage_class(self, _claim: str) -> str:
        """No claim was read."""
        return ""

    def volumes(self, _pod: PodUid) -> Iterable[UsedVolume]:
        """No volume was read."""
        return ()
