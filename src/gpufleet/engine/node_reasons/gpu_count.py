"""The node has fewer GPUs than the pod asks for, free or in use."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import counted

BIT = 1 << 10


def finding(case: Case) -> Finding:
    """How many GPUs the largest nodes have."""
    largest = max(len(node.devices) for node in case.near)
    count = case.shape.gpu.count
    why = f"it asks for {counted(count, case.unit)} on one node, and the largest have {largest}"
    pods = -(-count // largest)
    example = f"{counted(pods, 'pod')} with {-(-count // pods)} each as a gang"
    return Finding(why, (f"ask for at most {largest} in one pod, for example {example}",))


REASON = NodeReason(
    "gpu-count",
    BIT,
    height=20,
    kind=Kind.CHANGE,
    words="with fewer GPUs than asked for",
    counts_gpus=True,
    remedy="the pod asked for fewer GPUs (several pods can be a gang)",
    finding=finding,
)
