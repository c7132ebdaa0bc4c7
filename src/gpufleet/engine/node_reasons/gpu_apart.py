"""The node never has so many GPUs near each other, free or in use."""

from gpufleet.engine.node_reasons.amount_words import NEAR
from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.locality import groups, take_gpus_apart
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import counted

BIT = 1 << 28


def finding(case: Case) -> Finding:
    """How many GPUs are near each other at most."""
    count, near = case.shape.gpu.count, NEAR[case.shape.gpu.within]
    most = max((len(one.devices) for one in groups(case)), default=0)
    asked = f"{counted(count, case.unit)}{near}"
    why = f"it asks for {asked}, and no node that would do has more than {most} there"
    smaller = [f"ask for at most {most} in one pod (several pods can be a gang)"] if most > 1 else []
    return Finding(why, (*smaller, take_gpus_apart(case)))


REASON = NodeReason(
    "gpu-apart",
    BIT,
    height=10,
    kind=Kind.CHANGE,
    words="without so many GPUs near each other",
    remedy="the pod took GPUs that are apart, or fewer of them",
    finding=finding,
)
