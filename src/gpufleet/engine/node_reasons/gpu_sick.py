"""The node has too few healthy GPUs."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted, harmless, listed

BIT = 1 << 9


def finding(case: Case) -> Finding:
    """The GPUs that are not healthy, and what is said of them."""
    found = []
    for node in case.near:
        for device in node.devices:
            if not device.healthy:
                # The words are free text from a report and may hold anything.
                words = case.details.sickness(node.name, device.id)
                found.append(f"{device.id} on {node.name}" + (f" ({printable(words)})" if words else ""))
    are = "is" if len(found) == 1 else "are"
    why = f"{counted(len(found), case.unit)} that it could use {are} not healthy: {listed(found)}"
    return Finding(why, (f"see to the GPU of {harmless(case.near[0].name)}, or replace it",))


REASON = NodeReason(
    "gpu-sick",
    BIT,
    height=6,
    kind=Kind.CHANGE,
    words="with too few healthy GPUs",
    counts_gpus=True,
    remedy="enough of their GPUs were healthy",
    finding=finding,
)
