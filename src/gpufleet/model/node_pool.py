"""A pool from which an autoscaler buys nodes: which pods its nodes are for, and how much may still be bought.

What instances there are is known to the autoscaler alone. So a pool may seem to have nodes for a pod that it
has not; it never seems to have none where it has.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.model import label_values
from gpufleet.model.label_values import LabelValues
from gpufleet.model.labels import NodeAffinity, NodeTerm, Requirement, allowed_by_key, equals
from gpufleet.model.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from gpufleet.model.shape import Shape
from gpufleet.model.taint import Taint, untolerated

NODES = "nodes"
"""The resource by which a pool limits how many nodes it has."""

Amounts = dict[str, int]
"""By resource: CPU in millicores, memory and storage in bytes, all else in whole units."""

# Labels of these domains are given by the kubelet, the cloud and the autoscaler: a pool need not name them.
_KNOWN_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com")
_EVERY = (NodeTerm(),)


class NodePool(msgspec.Struct, frozen=True):
    """A pool. ``used`` is what its nodes have, ``left`` what may still be bought of each limited resource.

    ``allowed`` has the values that its nodes' labels may have, as far as it says so. ``gpus_of_a_node`` are
    the sizes of its nodes, empty where it does not say; ``has_gpus`` is False where it says that they have
    none. ``startup_taints`` are the keys of taints that its nodes lose once they are set up.
    """

    name: str
    allowed: Mapping[str, LabelValues]
    taints: tuple[Taint, ...]
    used: Mapping[str, int]
    left: Mapping[str, int]
    gpus_of_a_node: tuple[int, ...] = ()
    has_gpus: bool = True
    startup_taints: frozenset[str] = frozenset()

    def serves(self, shape: Shape) -> bool:
        """Whether a pod of the shape may run on its nodes, as far as it says what they are like."""
        if shape.gpu.count and not self.has_gpus:
            return False
        if shape.gpu.whole and self.gpus_of_a_node and max(self.gpus_of_a_node) < shape.gpu.count:
            return False
        if untolerated(self.taints, shape.tolerations) is not None:
            return False
        selected = equals(shape.node_selector)
        # Each for itself: which of their terms go together is more than a pool can say.
        return all(
            any(self._allows((*selected, *term.expressions)) for term in _terms(affinity))
            for affinity in (shape.affinity, *shape.volume_affinities)
        )

    def _allows(self, requirements: Iterable[Requirement]) -> bool:
        return not any(
            values.intersection(self._values(key)).is_empty()
            for key, values in allowed_by_key(requirements).items()
        )

    def _values(self, key: str) -> LabelValues:
        found = self.allowed.get(key)
        if found is not None:
            return found
        domain = key.partition("/")[0]
        known = any(domain == one or domain.endswith(f".{one}") for one in _KNOWN_DOMAINS)
        return label_values.ANYTHING if known else label_values.ABSENT


def _terms(affinity: NodeAffinity) -> tuple[NodeTerm, ...]:
    return _EVERY if affinity.terms is None else affinity.terms


def asked(shape: Shape) -> Amounts:
    """What a pod of the shape takes of a new node; shares of GPUs are not among it."""
    amounts = {
        CPU: shape.resources.cpu_milli,
        MEMORY: shape.resources.memory_bytes,
        EPHEMERAL_STORAGE: shape.resources.ephemeral_storage_bytes,
        **dict(shape.resources.other),
    }
    if shape.gpu.whole and shape.gpu_resource:
        amounts[shape.gpu_resource] = shape.gpu.count
    return {name: amount for name, amount in amounts.items() if amount}


def nodes_for(gpus: Iterable[int], size: int) -> int:
    """How many nodes with so many GPUs pods with these numbers of GPUs take, the largest placed first."""
    free: list[int] = []
    for count in sorted(gpus, reverse=True):
        position = next((at for at, left in enumerate(free) if left >= count), None)
        if position is None:
            free.append(size - count)
        else:
            free[position] -= count
    return len(free)
