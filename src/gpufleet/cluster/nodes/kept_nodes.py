"""Nodes that joined for chosen work: kept for it by a taint that no other pod tolerates.

Nodes of one purchase join minutes apart. Until all are there a gang cannot start, and other work would take
the first ones: then the gang is short of nodes again, and its last ones stay empty. The taint is the
scheduler's own idea of the node and stands in no object.
"""

from typing import Any

import msgspec

from gpufleet.kube.codec.chosen_nodes import NodesComing, read_chosen_nodes
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE
from gpufleet.kube.meanings.node_pools import pool_of
from gpufleet.kube.mirror_changes import Appeared, Changed, Vanished
from gpufleet.kube.objects import node as wire
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.taint import EXISTS, Taint, Toleration

KEPT = Taint("gpufleet.io/nodes-chosen")
TOLERATION = Toleration(KEPT.key, EXISTS)
"""What pods tolerate for which nodes were chosen."""

KEPT_MOST_US = 16 * 60 * 1_000_000
"""A condition that names a later end was not written by the expander, whose clock may be a minute ahead."""

ANY_GROUP = "-"
"""The group of nodes that no label names."""


class KeptNodes:
    """For which waiting pods nodes were chosen, and since when nodes are kept in each group."""

    def __init__(self) -> None:
        self._coming: dict[PodUid, NodesComing] = {}
        self._since_us: dict[str, int] = {}

    def hear(self, change: Any) -> None:
        """A pod appeared, changed or went."""
        match change:
            case Appeared(pod) | Changed(_, pod):
                said = read_chosen_nodes(pod) if _waits(pod) else None
                if isinstance(said, NodesComing):
                    self._coming[PodUid(pod.metadata.uid)] = said
                else:
                    self._coming.pop(PodUid(pod.metadata.uid), None)
            case Vanished(pod):
                self._coming.pop(PodUid(pod.metadata.uid), None)

    def take_changed(self, now_us: int) -> dict[str, int]:
        """The groups in which other nodes are kept than before, and since when they joined."""
        since_us: dict[str, int] = {}
        for one in self._coming.values():
            if now_us < one.until_us <= now_us + KEPT_MOST_US:
                since_us[one.group] = min(one.since_us, since_us.get(one.group, one.since_us))
        before, self._since_us = self._since_us, since_us
        groups = [one for one in (*before, *since_us) if before.get(one) != since_us.get(one)]
        return {
            one: min(before.get(one, since_us.get(one, 0)), since_us.get(one, before.get(one, 0)))
            for one in groups
        }

    def is_kept(self, node: wire.Node) -> bool:
        """Whether a node joined for work that still waits."""
        since_us = self._since_us.get(group_of(node))
        return since_us is not None and joined_at_us(node) >= since_us

    @property
    def keeps_any(self) -> bool:
        """Whether nodes of any group are kept."""
        return bool(self._since_us)

    def joined_for(self, node: wire.Node) -> list[PodUid]:
        """The waiting pods for which a node joined, in the order in which nodes were chosen for them."""
        group = group_of(node)
        return [uid for uid, one in self._coming.items() if one.group == group] if self.is_kept(node) else []

    def read(self, written: wire.Node, node: Node) -> Node:
        """The node as the engine shall see it."""
        if not self._since_us or not self.is_kept(written):
            return node
        return msgspec.structs.replace(node, taints=(*node.taints, KEPT))


def group_of(node: wire.Node) -> str:
    """The group by the labels of a node: its pool, else its type of instance."""
    labels = node.metadata.labels
    return pool_of(labels) or labels.get(INSTANCE_TYPE) or ANY_GROUP


def joined_at_us(node: wire.Node) -> int:
    """When a node joined; 0 where that cannot be read."""
    try:
        return microseconds(node.metadata.creation_timestamp)
    except InputError:
        return 0


def _waits(pod: Pod) -> bool:
    return not (pod.spec.node_name or pod.terminal or pod.metadata.deletion_timestamp)
