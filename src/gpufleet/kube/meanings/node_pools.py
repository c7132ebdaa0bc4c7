"""What a cloud, an autoscaler or a person calls the group of nodes that a node belongs to, by its labels."""

from collections.abc import Mapping

KARPENTER_NODE_POOL = "karpenter.sh/nodepool"
POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    KARPENTER_NODE_POOL,
    "doks.digitalocean.com/node-pool",
    "node.kubernetes.io/pool",
)
"""The first of these that a node has names its group."""


def pool_of(labels: Mapping[str, str]) -> str:
    """The name of the group, "" where no label says one."""
    return next((labels[one] for one in POOL_LABELS if labels.get(one)), "")
