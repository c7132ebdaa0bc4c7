"""The node's GPUs have another resource name: they are another vendor's, or given out as something else."""

from collections import Counter

from gpufleet.engine.reasons.case import Case, Finding
from gpufleet.engine.reasons.node_reason import Kind, NodeReason
from gpufleet.model.device import Serves
from gpufleet.model.phrases import listed

BIT = 1 << 34

VALUES_MAX = 5
"""Of more models a person reads only the first."""


def finding(case: Case) -> Finding:
    """By which names GPUs can be asked for."""
    there = Counter(str(device.model) or "unknown" for node in case.nodes for device in node.devices)
    have = listed((f"{model} ({count})" for model, count in there.most_common()), VALUES_MAX)
    why = f"no node has GPUs that are asked for as {case.shape.gpu_resource}; the cluster has {have}"
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
