"""Pods that ended on their nodes, as long as a report may still name them.

A pod that succeeded or failed holds nothing any more, whatever its node's last report says. That counts
while the API has the pod, and after its deletion until the report names it no more. A pod that was deleted
before its kubelet said that it ended is not among these: its containers may run.
"""

from collections.abc import Container

from gpufleet.model.identifiers import NodeName, PodUid


class EndedPods:
    """The pods that ended, with their nodes."""

    def __init__(self) -> None:
        self._node: dict[PodUid, NodeName] = {}
        self._deleted: dict[NodeName, set[PodUid]] = {}

    def end(self, uid: PodUid, node: NodeName) -> None:
        """A kubelet said that a pod ended."""
        self._node[uid] = node

    def ended_on(self, uid: PodUid, node: NodeName) -> bool:
        """Whether a pod ended on this node."""
        return self._node.get(uid) == node

    def delete(self, uid: PodUid) -> NodeName | None:
        """The API does not have the pod any more: the node on which it ended."""
        node = self._node.get(uid)
        if node is not None:
            self._deleted.setdefault(node, set()).add(uid)
        return node

    def forget_unnamed(self, node: NodeName, named: Container[PodUid]) -> None:
        """Forget deleted pods that the node's report does not name."""
        for uid in [uid for uid in self._deleted.get(node, ()) if uid not in named]:
            self._deleted[node].discard(uid)
            self._node.pop(uid, None)
        if not self._deleted.get(node, True):
            del self._deleted[node]
