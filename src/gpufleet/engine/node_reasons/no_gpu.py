"""The node has no GPU."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason

BIT = 1 << 6


def finding(case: Case) -> Finding:
    """Whether the cluster has GPUs elsewhere."""
    why = "no node of the cluster has a GPU that Kubernetes knows of"
    if any(node.devices for node in case.nodes):
        why = "the nodes that it may run on have no GPUs"
    columns = "NAME:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu"
    way = f"see whether the GPU's device plugin runs: kubectl get nodes -o custom-columns='{columns}'"
    return Finding(why, (way,))


REASON = NodeReason(
    "no-gpu",
    BIT,
    height=60,
    kind=Kind.CHANGE,
    words="without GPUs",
    remedy="they had GPUs",
    finding=finding,
)
