"""Nodes on which a provisioner could make no volume for a claim.

It says so by removing the node's name from the claim, and nothing else. The next choice would fall on
the same node again, so the node is left out for that claim for a while.
"""

from gpufleet.model.identifiers import NodeName
from gpufleet.model.labels import NodeAffinity, NodeNameRequirement, NodeTerm, Operator

PAUSE_S = 60.0
"""Long enough to try other nodes first, short enough for a node with storage that was full for a moment."""


class VolumeRefusals:
    """By claim (with its namespace) the nodes that are left out, and until when."""

    def __init__(self) -> None:
        self._until_s: dict[str, dict[NodeName, float]] = {}

    def refuse(self, claim: str, node: NodeName, at_s: float) -> None:
        """The provisioner turned the node down."""
        self._until_s.setdefault(claim, {})[node] = at_s + PAUSE_S

    def elsewhere(self, claim: str) -> NodeAffinity | None:
        """An affinity for all nodes but those left out; None where no node is left out."""
        nodes = self._until_s.get(claim)
        if not nodes:
            return None
        fields = tuple(NodeNameRequirement(Operator.NOT_IN, node) for node in sorted(nodes))
        return NodeAffinity((NodeTerm(fields=fields),))

    def lapsed(self, at_s: float) -> list[str]:
        """Claims for which a node may be tried again, each told once."""
        found = []
        for claim, nodes in list(self._until_s.items()):
            for node in [node for node, until_s in nodes.items() if until_s <= at_s]:
                del nodes[node]
                found.append(claim)
            if not nodes:
                del self._until_s[claim]
        return list(dict.fromkeys(found))

    def next_lapse_s(self) -> float | None:
        """When the next node may be tried again."""
        return min((until_s for nodes in self._until_s.values() for until_s in nodes.values()), default=None)
