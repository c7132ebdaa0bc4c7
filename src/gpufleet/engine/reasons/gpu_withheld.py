"""The node's GPUs are given out to no pod: the kubelet counts none, or a process of no pod holds them."""

from gpufleet.engine.reasons.case import Case, Finding
from gpufleet.engine.reasons.node_reason import Kind, NodeReason
from gpufleet.model.device import Serves
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted, harmless, listed

BIT = 1 << 31


def finding(case: Case) -> Finding:
    """What withholds the GPUs: a kubelet that counts none, or a process of no pod that holds them."""
    uncounted = [node.name for node in case.near if node.uncounted]
    look = "see whether gpufleet's agent runs there, and what its log says"
    if case.shape.gpu.whole and uncounted:
        kubelets = "the kubelet" if len(uncounted) == 1 else "the kubelets"
        counts = "counts" if len(uncounted) == 1 else "count"
        why = f"{kubelets} of {listed(uncounted)} {counts} no GPU, so the device plugin there is away"
        return Finding(why, (look, "gpufleet doctor looks further"))
    domain = case.shape.gpu_resource.partition("/")[0] + "/"
    parts = sorted(
        {name for node in case.near for name, _ in node.allocatable.other if name.startswith(domain)}
    )
    if case.shape.gpu.whole and parts:
        why = f"the GPUs of {case.near_names} are given out as {listed(parts)}, and none whole"
        return Finding(why, (f"ask for {parts[0]}", "have a GPU given out whole there"))
    foreign = [
        # The words are free text from a report and may hold anything.
        f"{harmless(device)} on {node.name}" + (f" ({printable(words)})" if words else "")
        for node in case.near
        for device, words in case.background.foreign_holders(node.name)
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


REASON = NodeReason(
    "gpu-withheld",
    BIT,
    height=9,
    kind=Kind.CHANGE,
    words="whose GPUs are given out to no pod",
    remedy="their GPUs were given out",
    finding=finding,
)
