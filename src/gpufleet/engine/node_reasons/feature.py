"""The node does not declare a feature that the pod's spec needs."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.cuda_compatibility import DRIVER_FEATURES
from gpufleet.model.phrases import listed

BIT = 1 << 4


def finding(case: Case) -> Finding:
    """The features that no node has."""
    needed = set(case.shape.features) - DRIVER_FEATURES
    lacking = sorted({one for node in case.near for one in needed - set(node.features)})
    why = f"no node that would do declares {listed(lacking)}"
    return Finding(why, ("upgrade the kubelets, or leave the field out that needs it",))


REASON = NodeReason(
    "feature",
    BIT,
    height=12,
    kind=Kind.CHANGE,
    words="without a feature that the pod needs",
    remedy="they had the feature that the pod needs",
    finding=finding,
)
