"""What a pod means, with the help of all the objects it speaks of.

Every object that is looked up on the way is remembered as one that the pod depends on
(``dependencies``), so that the pod is read again when it changes. A pod that cannot be handed to the
engine is ``Held``, with the reason for its owner.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gpufleet.kube import keys, resources
from gpufleet.kube.codec.gangs import GangFinder
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.codec.pod import NO_LABELS, read_placed_pod, read_pod
from gpufleet.kube.codec.volumes import read_volumes
from gpufleet.kube.codec.waits import waits_of
from gpufleet.kube.errors import ObjectError
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import Kind
from gpufleet.model import pod as model
from gpufleet.model.grant import Grant
from gpufleet.model.identifiers import DeviceId, PodUid
from gpufleet.model.shape import GpuRequest
from gpufleet.scheduler.cluster import Cluster
from gpufleet.scheduler.dependencies import Dependencies, ObjectKey

MALFORMED = "Malformed"


class Held(msgspec.Struct, frozen=True):
    """Why a pod is not handed to the engine: a reason as in conditions, and words for its owner."""

    reason: str
    message: str


class Recorder:
    """Looks objects up and remembers which were asked for, those that are not there too."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.keys: set[ObjectKey] = set()

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """One object."""
        self.keys.add(ObjectKey(kind, namespace, name))
        return self.cluster.find(kind, name, namespace)

    def all(self, kind: Kind) -> Iterable[Any]:
        """All objects of a kind."""
        self.keys.add(ObjectKey(kind, "", ""))
        return self.cluster.all(kind)
