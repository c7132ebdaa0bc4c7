"""The node's GPUs have another resource name: they are another vendor's, or given out as something else."""

from gpufleet.engine.reasons.case import Case, Finding
from gpufleet.engine.reasons.node_reason import Kind, NodeReason
from gpufleet.model.device import Serves
from gpufleet.model.phrases import listed

BIT = 1 << 34


def finding(case: Case) -> Finding:
    """By which names GPUs can be asked for."""
    asked = case.shape.gpu_resource
    why = f"no node has GPUs that are asked for as {asked}; the cluster has {case.gpus_in_words}"
    whole = (node for node in case.nodes if any(one.serves & Serves.WHOLE for one in node.devices))
    names = sorted({name for node in whole for name in node.gpu_resources})
    return Finding(why, (f"ask for {listed(names)}",) if names else ())


REASON = NodeReason(
    "gpu-vendor",
    BIT,
    # More than for any setting of a pod: its image is made for the vendor's GPUs. A node of that vendor is
    # nearer, though it has too few of them.
    height=50,
    kind=Kind.CHANGE,
    words="whose GPUs have another resource name",
    remedy="the pod asked for their GPUs by their name",
    finding=finding,
)
