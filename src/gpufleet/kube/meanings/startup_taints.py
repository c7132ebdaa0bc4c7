"""Taints of nodes that are not for use yet."""

STARTUP_TAINTS = (
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "karpenter.sh/unregistered",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
"""By how they begin; the condition Ready says the rest."""

STARTUP_ENDING = "/agent-not-ready"
"""How the startup taints of network agents end, such as Cilium's."""
