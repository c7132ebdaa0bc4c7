"""No node offers a resource that the pod asks for by its name."""

from collections.abc import Iterable

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.label_advice import nearest
from gpufleet.model.node import Node
from gpufleet.model.phrases import harmless
from gpufleet.model.resource_names import (
    AMD_GPU,
    HUGE_PAGES_PREFIX,
    NVIDIA_GPU,
    NVIDIA_SHARED,
    is_huge_pages,
    is_mig_instance,
)
from gpufleet.model.shape import Shape

BIT = 1 << 32

# What is asked for by these names is counted in devices, so no node offers them as other resources.
WHOLE_GPUS = (NVIDIA_GPU, AMD_GPU)


def unknown(shape: Shape, nodes: Iterable[Node | None]) -> str:
    """The first resource that the shape asks for and no node offers; "" if there is none."""
    asked = dict.fromkeys(name for name, amount in shape.resources.other if amount)
    for node in nodes:
        if not asked:
            break
        for name, _ in () if node is None else node.allocatable.other:
            asked.pop(name, None)
    return next(iter(asked), "")


def finding(case: Case) -> Finding:
    """Which name no node offers, and which was perhaps meant."""
    name = unknown(case.shape, case.nodes)
    if case.shape.gpu.count and not case.shape.gpu.whole:
        why = f"it asks for parts of GPUs by {harmless(name)}, and no node has an agent that offers them"
        return Finding(why, ("run gpufleet's agent on the nodes with GPUs", "ask for whole GPUs"))
    offered = dict.fromkeys(other for node in case.nodes for other, _ in node.allocatable.other)
    meant = nearest(name, [*offered, *WHOLE_GPUS])
    ways = [f"did you mean {harmless(meant)}?"] if meant else []
    if is_mig_instance(name):
        ways.append("no GPU is split into MIG instances of this profile; ask for a whole GPU or a fraction")
    ways += _how_it_is_offered(name)
    return Finding(f"no node offers {harmless(name)}", tuple(ways))


def _how_it_is_offered(name: str) -> tuple[str, ...]:
    """What has to be done so that nodes offer it."""
    if is_huge_pages(name):
        size = harmless(name.removeprefix(HUGE_PAGES_PREFIX))
        return (f"reserve huge pages of {size} in the kernels of the nodes", "leave the huge pages out")
    if name == NVIDIA_SHARED:
        return (
            "share GPUs under this name: timeSlicing with renameByDefault: true in the plugin's ConfigMap",
            f"ask for {NVIDIA_GPU}, whose name stays where GPUs are shared without renameByDefault",
            "ask for a part of a GPU: the annotation gpufleet.io/gpu-fraction",
        )
    return ("if a device plugin shall offer it, see whether the plugin runs on the nodes",)


REASON = NodeReason(
    "unknown-resource",
    BIT,
    height=13,
    kind=Kind.CHANGE,
    words="without a resource that the pod asks for, as all others",
    remedy="they offered the resource",
    finding=finding,
)
