"""The node's GPUs have another resource name: they are another vendor's, or given out as something else."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.device import Serves

BIT = 1 << 34


def finding(case: Case) -> Finding:
    """By which names GPUs can be asked for."""
    asked = case.shape.gpu_resource
    if not case.shape.gpu.whole:
        # The slot names no vendor: the pod's image or resources did.
        why = f"it needs a part of a GPU that is counted as {asked}, and no node has one"
        return Finding(f"{why}; the cluster has {case.gpus_in_words}", ("add a node with such a GPU",))
    why = f"no node has GPUs that are asked for as {asked}; the cluster has {case.gpus_in_words}"
    whole = (node for node in case.nodes if any(one.serves & Serves.WHOLE for one in node.devices))
    names = sorted({name for node in whole for name in node.gpu_resources})
    # An image runs on another GPU of its vendor, hardly on one of another vendor.
    own = [name for name in names if vendor_of(name) == vendor_of(asked)]
    return Finding(why, tuple(f"ask for {name}" for name in own or names))


def vendor_of(resource: str) -> str:
    """The vendor's domain at the beginning of a resource name."""
    return resource.partition("/")[0]


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
