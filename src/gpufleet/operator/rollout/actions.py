"""What a rollout wants done, as values. The shell carries them out in their order.

Each action sets a state and adds nothing to it, so that to carry it out twice is the same as once: a process
that was killed between an action and its answer simply does it again.
"""

import msgspec

from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.operator.rollout.stamp import Progress, Stamp


class WriteNode(msgspec.Struct, frozen=True, tag=True):
    """One write of a node: its stamp and, where not None, its cordon, tied to the version that was read.

    Both are one write, so that no cordon can be without a stamp that says whose it is. A stamp of None is
    taken off.
    """

    node: NodeName
    stamp: Stamp | None
    cordon: bool | None = None


class AskCheckpoint(msgspec.Struct, frozen=True, tag=True):
    """Pods are asked to write a checkpoint before this moment."""

    pods: tuple[PodUid, ...]
    before_us: int


class Evict(msgspec.Struct, frozen=True, tag=True):
    """Pods are told to end, by uid and by the eviction API, so that disruption budgets hold."""

    node: NodeName
    pods: tuple[PodUid, ...]


class PodPlace(msgspec.Struct, frozen=True):
    """A pod goes to this node, where the scheduler keeps its place."""

    pod: PodUid
    node: NodeName


class Move(msgspec.Struct, frozen=True, tag=True):
    """The scheduler is asked to move these pods: it keeps their places, and ends a gang at once."""

    node: NodeName
    places: tuple[PodPlace, ...]


class Leave(msgspec.Struct, frozen=True, tag=True):
    """The scheduler is asked no more to move these pods of a node."""

    node: NodeName
    pods: tuple[PodUid, ...]


class SetDriver(msgspec.Struct, frozen=True, tag=True):
    """The driver of a node, and where one comes its toolkit, is to be this image (``model.node_images``)."""

    node: NodeName
    image: str


class StartCheck(msgspec.Struct, frozen=True, tag=True):
    """A pod that uses a GPU is to run on the node; its name is made of node and image."""

    node: NodeName
    image: str


class DeleteCheck(msgspec.Struct, frozen=True, tag=True):
    """The check pod of the node is to go."""

    node: NodeName


class WriteProgress(msgspec.Struct, frozen=True, tag=True):
    """The status of the policy is to say this."""

    progress: Progress


Action = (
    WriteNode | AskCheckpoint | Evict | Move | Leave | SetDriver | StartCheck | DeleteCheck | WriteProgress
)
