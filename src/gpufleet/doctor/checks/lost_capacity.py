"""Nodes where fewer GPUs are allocatable than there are: the plugin died, or devices are out of service."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.waiting import held_up_by


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """The nodes that lost GPUs, all and some apart: they have different causes."""
    known = [one for one in facts.gpu_nodes if any(one.capacity.values())]
    lost = {one.name: _lost(one) for one in known}
    # All gone is the plugin's doing; a part of them is the devices'.
    gone = [one for one in known if any(may == 0 for may, _ in lost[one.name].values())]
    fewer = [one for one in known if lost[one.name] and one not in gone]
    if gone:
        yield _failure(
            facts,
            gone,
            lost,
            "GPUs in its capacity, none allocatable: the device plugin has stopped, or finds none well",
            "start the plugin on the node again, and read why it ended",
        )
    if fewer:
        yield _failure(
            facts,
            fewer,
            lost,
            "fewer GPUs allocatable than it has: devices are out of service",
            "see which device is unhealthy and why; a reset or a reboot brings it back",
        )
    if known and not gone and not fewer:
        yield Good("every GPU that a kubelet knows of is allocatable")


def _lost(node: NodeView) -> dict[str, tuple[int, int]]:
    """What may be had and what there is, of resources where the two differ."""
    found = {name: (node.allocatable.get(name, 0), there) for name, there in node.capacity.items()}
    return {name: pair for name, pair in found.items() if pair[0] < pair[1]}


def _failure(
    facts: Facts, nodes: list[NodeView], lost: dict[str, dict[str, tuple[int, int]]], says: str, way: str
) -> Failure:
    names = [one.name for one in nodes]
    seen = [
        f"{one.name}: {name} allocatable {may}, capacity {there}"
        for one in nodes
        for name, (may, there) in lost[one.name].items()
    ]
    return Failure(
        f"{listed(names)}: {says}",
        tuple(one.title for one in nodes),
        tuple(seen),
        (Remedy(way, f"kubectl get pods -A -o wide --field-selector spec.nodeName={names[0]}"),),
        frozenset(one.title for one in nodes) | held_up_by(facts, nodes),
    )


CHECK = Check(
    "capacity-lost",
    Point.STACK,
    Layer.OFFER,
    "All GPUs of a node can be had",
    "GPUs that are not allocatable are paid for and given to no pod.",
    judge,
    ("Node",),
)
