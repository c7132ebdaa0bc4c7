"""GPU nodes that are short of disk, memory or process numbers: they take no pods, and put some out."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.waiting import kept_to

_WAYS = {
    "DiskPressure": "free its disk: images of GPU frameworks are large, and unused ones can go",
    "MemoryPressure": "find what takes the memory, and give it a limit",
    "PIDPressure": "find what starts so many processes, and limit them in the kubelet (podPidsLimit)",
    "NetworkUnavailable": "look at the network plugin's pod on the node",
}


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The nodes by what they lack."""
    found = False
    for kind, way in _WAYS.items():
        nodes = [
            one
            for one in facts.gpu_nodes
            if one.is_ready and kind in one.conditions and one.conditions[kind].is_true
        ]
        if not nodes:
            continue
        found = True
        names = [one.name for one in nodes]
        told = [(one.name, one.conditions[kind]) for one in nodes]
        yield Failure(
            f"{listed(names)}: {kind}, so nothing new is placed there",
            tuple(one.title for one in nodes),
            tuple(f"{name}: {kind}=True {one.reason}: {one.message}" for name, one in told),
            (Remedy(way, f"kubectl describe node {names[0]}"),),
            frozenset(one.title for one in nodes) | kept_to(facts, nodes),
        )
    if facts.gpu_nodes and not found:
        yield Good("no GPU node is short of disk, memory or process numbers")


CHECK = Check(
    "nodes-pressed",
    Point.NODES,
    Layer.NODE,
    "GPU nodes are not under pressure",
    "A kubelet that is short of disk, memory or process numbers takes no pods and evicts those it has.",
    judge,
    ("Node",),
)
