"""What the nodes of Karpenter's pools have that work can use already; the rest that was bought is coming."""

from collections.abc import Iterable, Mapping

from gpufleet.cluster.watching.mirrors import Cluster
from gpufleet.engine.node_reasons.node_not_ready import NOT_READY
from gpufleet.kube.codec.node_pools import read_amounts
from gpufleet.kube.meanings.node_pools import KARPENTER_NODE_POOL
from gpufleet.kube.meanings.startup_taints import STARTUP_ENDING, STARTUP_TAINTS
from gpufleet.kube.objects.node import Node
from gpufleet.kube.resources import NODES
from gpufleet.model import node_pool
from gpufleet.model.node_pool import Amounts, NodePool

READ_EVERY_US = 2 * 10**6
"""A cluster may have thousands of nodes, and those of a purchase join over minutes."""


class PoolNodes:
    """Sums up the nodes of each pool."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._usable: dict[str, Amounts] = {}
        self._as_of_us: int | None = None

    def usable(self, pools: Iterable[NodePool], at_us: int) -> Mapping[str, Amounts]:
        """What nodes that are set up have, by pool."""
        if self._as_of_us is None or at_us - self._as_of_us >= READ_EVERY_US:
            passing = {one.name: one.startup_taints | NOT_READY for one in pools}
            self._usable = {name: {} for name in passing}
            for node in self._cluster.all(NODES):
                name = node.metadata.labels.get(KARPENTER_NODE_POOL)
                if name in passing and not _is_being_set_up(node, passing[name]):
                    _add(self._usable[name], node)
            self._as_of_us = at_us
        return self._usable


def _is_being_set_up(node: Node, taints: frozenset[str]) -> bool:
    keys = [one.key for one in node.spec.taints]
    return any(
        key in taints or key.startswith(STARTUP_TAINTS) or key.endswith(STARTUP_ENDING) for key in keys
    )


def _add(sums: Amounts, node: Node) -> None:
    amounts = {**read_amounts(node.status.allocatable), node_pool.NODES: 1}
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0) + amount
