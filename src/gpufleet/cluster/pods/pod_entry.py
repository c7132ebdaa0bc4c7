"""Where a pod stands, and what we keep of it: shared by ``pods`` and ``gangs``."""

import enum

import msgspec

from gpufleet.cluster.pods.pod_reader import Held
from gpufleet.kube.objects.pod import Pod
from gpufleet.model import pod as model
from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.pod_name import PodName


class PodStage(enum.Enum):
    """Where a pod stands."""

    GATED = "gated"
    HELD = "held"
    WAITING = "waiting"
    PLACED = "placed"


class Intent(msgspec.Struct, frozen=True):
    """A bind under way: what the pod will look like if it succeeds."""

    node: NodeName
    devices: tuple[DeviceId, ...]
    annotations: dict[str, str]
    terms: BoundTerms


class Entry(msgspec.Struct):
    """A pod as last seen, and what the engine was told of it.

    While a bind is under way (``intent``) it stays as it was decided on; ``newer`` is what it says now.
    ``terms`` are those of its grant, and ``ignored`` what is said of it since and does not count.
    ``saved_us`` is when it saved its work last, 0 for never; ``move_to`` is where it is to go, if anywhere.
    """

    name: PodName
    object: Pod
    place: PodStage
    meaning: model.Pod | None = None
    held: Held | None = None
    devices: tuple[DeviceId | None, ...] = ()
    intent: Intent | None = None
    newer: Pod | None = None
    terms: BoundTerms | None = None
    ignored: tuple[str, ...] = ()
    saved_us: int = 0
    move_to: NodeName | None = None

    @property
    def node(self) -> NodeName:
        """The node it has, "" while it has none."""
        return NodeName(self.object.spec.node_name)


class PlacedPod(msgspec.Struct, frozen=True):
    """A pod that has a node, and what may be done with it."""

    pod: PodName
    controlled: bool
    may_be_deleted: bool = False

    @property
    def may_be_taken(self) -> bool:
        """Whether it may be evicted or deleted."""
        return self.controlled or self.may_be_deleted
