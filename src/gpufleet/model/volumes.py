"""What a pod's volumes ask of the node: limits, exclusiveness, and claims not bound yet.

Where a volume that exists may be used is a matter of labels and stands in the shape
(``shape.Shape.volume_affinities``). Here is what depends on other pods, or is decided together
with the place.
"""

import msgspec

from gpufleet.model.labels import NodeAffinity


class Attachment(msgspec.Struct, frozen=True, cache_hash=True, order=True):
    """A volume that takes one of the places a node has for volumes of this driver.

    Several pods of one node that use the same volume take one place.
    """

    driver: str
    volume: str


class VolumeCandidate(msgspec.Struct, frozen=True, cache_hash=True):
    """A free PersistentVolume that could serve a claim, and where it can be used."""

    volume: str
    reach: NodeAffinity


class UnboundClaim(msgspec.Struct, frozen=True, cache_hash=True):
    """A claim that is bound when its pod is placed (WaitForFirstConsumer).

    One of ``candidates``, the best first, must be usable on the node, or the provisioner must be
    able to make a volume there: ``provision`` lists where it can (None: there is no provisioner).
    """

    claim: str
    candidates: tuple[VolumeCandidate, ...] = ()
    provision: tuple[NodeAffinity, ...] | None = None


class Volumes(msgspec.Struct, frozen=True, cache_hash=True):
    """All of a pod's volumes, by what they ask. ``exclusive`` are claims for one pod at a time."""

    attachments: tuple[Attachment, ...] = ()
    exclusive: tuple[str, ...] = ()
    unbound: tuple[UnboundClaim, ...] = ()
