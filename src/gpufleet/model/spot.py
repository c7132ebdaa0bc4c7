"""Which nodes their provider may take back at any time: spot and preemptible machines, by the labels that
providers and Karpenter put on them.
"""

from collections.abc import Mapping

KARPENTER_CAPACITY_TYPE = "karpenter.sh/capacity-type"
SPOT_LABELS = (
    (KARPENTER_CAPACITY_TYPE, "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("cloud.google.com/gke-provisioning", "spot"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)


def is_spot(labels: Mapping[str, str]) -> bool:
    """True if a node with these labels may be taken back at any time."""
    return any(labels.get(key) == value for key, value in SPOT_LABELS)
