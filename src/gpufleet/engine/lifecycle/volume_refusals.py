"""Nodes on which a provisioner could make no volume for a claim.

It says so by removing the node's name from the claim, and nothing else. The next choice would fall on
the same node again, so the node is left out for the pod with that claim for a while: the pod counts as one
with volumes that cannot be used there.
"""

import msgspec

from gpufleet.engine.event import VolumeRefused
from gpufleet.engine.instruction import AnyInstruction, VolumeNodesLeftOut
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.labels import NodeAffinity, NodeNameRequirement, NodeTerm, Operator
from gpufleet.model.pod import Pod

PAUSE_US = 60_000_000
"""Long enough to try other nodes first, short enough for a node with storage that was full for a moment."""

US_PER_S = 1_000_000

Refused = dict[tuple[str, NodeName], int]
"""Until when a node is left out, by claim and node."""


class VolumeRefusals:
    """By pod the nodes that are left out for its claims."""

    def __init__(self) -> None:
        self.until_us_by_pod: dict[PodUid, Refused] = {}
        self._described: dict[PodUid, Pod] = {}
        self.unreported: dict[PodUid, None] = {}

    def refuse(self, happened: VolumeRefused, at_us: int) -> None:
        """A provisioner turned a node down. What was written down before counts for no longer than usual."""
        # A whole second, as in the condition that tells the next leader.
        until_us = -(-(at_us + PAUSE_US) // US_PER_S) * US_PER_S
        if happened.until_us is None:
            self.unreported[happened.uid] = None
        else:
            until_us = min(until_us, happened.until_us)
        if until_us > at_us:
            self.until_us_by_pod.setdefault(happened.uid, {})[happened.claim, happened.node] = until_us

    def narrowed(self, pod: Pod) -> Pod:
        """A pod that waits, as it is to be placed: on none of the nodes that are left out for it now."""
        if not self.until_us_by_pod:
            return pod
        refused = self.until_us_by_pod.get(pod.uid)
        claims = {unbound.claim for unbound in pod.shape.relations.volumes.unbound} if refused else set()
        # Sorted, so that pods with the same nodes left out have one shape.
        nodes = sorted({node for claim, node in refused or () if claim in claims})
        if not nodes:
            return pod
        # The pod without the exception is kept, because its shape is narrowed anew whenever a pause ends.
        self._described[pod.uid] = pod
        fields = tuple(NodeNameRequirement(Operator.NOT_IN, node) for node in nodes)
        elsewhere = NodeAffinity((NodeTerm(fields=fields),))
        shape = msgspec.structs.replace(
            pod.shape, volume_affinities=(*pod.shape.volume_affinities, elsewhere)
        )
        return msgspec.structs.replace(pod, shape=shape)

    def narrowed_anew(self, pod: Pod) -> Pod:
        """The pod as it stands now, with the nodes left out that were left out before."""
        return self.narrowed(self._described.pop(pod.uid, pod))

    def bound(self, uid: PodUid) -> None:
        """The pod has a node: none is left out for it any more."""
        if self.until_us_by_pod.pop(uid, None) is not None:
            self.unreported[uid] = None
        self._described.pop(uid, None)

    def end(self, at_us: int) -> list[PodUid]:
        """Pods for which a node may be tried again, each told once."""
        found = []
        for uid, refused in list(self.until_us_by_pod.items()):
            over = [key for key, until_us in refused.items() if until_us <= at_us]
            for key in over:
                del refused[key]
            if over:
                found.append(uid)
                self.unreported[uid] = None
            if not refused:
                del self.until_us_by_pod[uid]
        return found

    def next_due_us(self) -> int | None:
        """When the next node may be tried again."""
        return min(
            (until for refused in self.until_us_by_pod.values() for until in refused.values()), default=None
        )

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        self.until_us_by_pod.pop(uid, None)
        self._described.pop(uid, None)
        self.unreported.pop(uid, None)

    def take_instructions(self) -> list[AnyInstruction]:
        """The pods of which this has changed since the last call, each with all nodes that are left out."""
        told, self.unreported = self.unreported, {}
        by_pod = ((uid, self.until_us_by_pod.get(uid, {})) for uid in told)
        return [
            VolumeNodesLeftOut(uid, tuple((*key, until_us) for key, until_us in refused.items()))
            for uid, refused in by_pod
        ]
