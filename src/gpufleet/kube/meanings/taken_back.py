"""Which nodes go away for good within minutes: their provider takes them back, or an autoscaler removes them.

Autoscalers and handlers of interruptions say so by a taint. Spot capacity leaves 120 s after it on AWS, and
30 s after it on Google Cloud.
"""

from collections.abc import Iterable

TAKEN_BACK_TAINTS = frozenset(
    {
        # Karpenter, also for an interruption that it hears of itself.
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        # Cluster Autoscaler.
        "ToBeDeletedByClusterAutoscaler",
        # AWS Node Termination Handler, for a notice of spot capacity and for one of an autoscaling group.
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/asg-lifecycle-termination",
        # Google Kubernetes Engine.
        "cloud.google.com/impending-node-termination",
    }
)


def is_taken_back(taint_keys: Iterable[str]) -> bool:
    """True for the taints of a node from the moment on at which it is said to go."""
    return any(key in TAKEN_BACK_TAINTS for key in taint_keys)
