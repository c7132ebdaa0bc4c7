"""No volume for a claim of the pod is there, and none can be provisioned for the node."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import harmless

BIT = 1 << 23


def finding(case: Case) -> Finding:
    """Which claims find no volume, and what kind of volume they need."""
    sentences, ways = [], []
    for one in case.shape.relations.volumes.unbound:
        name, kind = harmless(one.claim.partition("/")[2]), case.details.storage_class(one.claim)
        of_class = f" of class {harmless(kind)}" if kind else ""
        if one.provision is None:
            free = f", and the {len(one.candidates)} free volumes are elsewhere" if one.candidates else ""
            sentences.append(f"claim {name} finds no free volume{of_class}{free}")
            ways.append(f"create a PersistentVolume{of_class} that is usable on {case.near_names}")
        else:
            its_class = f"class {harmless(kind)}" if kind else "the class"
            sentences.append(f"{its_class} of claim {name} can make no volume where there is room")
            ways.append(f"see allowedTopologies and the free capacity of {its_class}")
    return Finding("; ".join(sentences), tuple(ways))


REASON = NodeReason(
    "volume-unbound",
    BIT,
    height=4,
    kind=Kind.UNMET,
    words="without a volume for the pod's claim, and where none can be provisioned",
    remedy="it can run once there is a volume for its claim where there is room",
    finding=finding,
)
