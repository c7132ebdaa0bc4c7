"""The node's GPUs are given out neither whole nor in shares.

They are cut into MIG instances, the kubelet counts none, or a process of no pod holds them.
"""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.device import Serves
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted, harmless, listed
from gpufleet.model.resource_names import is_mig_instance

BIT = 1 << 31


def finding(case: Case) -> Finding:
    """What withholds the GPUs: MIG instances, a kubelet that counts none, or a process that holds them."""
    uncounted = [node.name for node in case.near if node.uncounted]
    look = "see whether gpufleet's agent runs there, and what its log says"
    if case.shape.gpu.whole and uncounted:
        kubelets = "the kubelet" if len(uncounted) == 1 else "the kubelets"
        counts = "counts" if len(uncounted) == 1 else "count"
        why = f"{kubelets} of {listed(uncounted)} {counts} no GPU, so the device plugin there is away"
        return Finding(why, (look, "gpufleet doctor looks further"))
    parts = _parts(case)
    if parts:
        wanted = "whole" if case.shape.gpu.whole else "in shares"
        why = f"the GPUs of {case.near_names} are given out as {listed(parts)}, and none {wanted}"
        return Finding(why, (f"ask for {parts[0]}", f"have a GPU given out {wanted} there"))
    foreign = [
        # The words are free text from a report and may hold anything.
        f"{harmless(device)} on {node.name}" + (f" ({printable(words)})" if words else "")
        for node in case.near
        for device, words in case.details.foreign_holders(node.name)
    ]
    if foreign:
        hands = f"{counted(len(foreign), 'GPU')} that it could use {'is' if len(foreign) == 1 else 'are'}"
        why = f"{hands} in foreign hands: {listed(foreign)}"
        return Finding(why, ("end what holds it there: nothing in the API does",))
    withheld = [one.id for node in case.near for one in node.devices if one.serves is Serves.NOTHING]
    why = (
        f"{listed(withheld)} of {case.near_names} {'is' if len(withheld) == 1 else 'are'} given out to no pod"
    )
    return Finding(why, (look,))


def _parts(case: Case) -> list[str]:
    """The resources as which the GPUs there are given out instead, such as MIG instances."""
    domain = case.shape.gpu_resource.partition("/")[0] + "/"
    offered = {name for node in case.near for name, _ in node.allocatable.other}
    return sorted(
        name
        for name in offered
        if (name.startswith(domain) if case.shape.gpu.whole else is_mig_instance(name))
    )


REASON = NodeReason(
    "gpu-withheld",
    BIT,
    height=9,
    kind=Kind.CHANGE,
    words="whose GPUs are given out neither whole nor in shares",
    remedy="their GPUs were given out whole or in shares",
    finding=finding,
)
