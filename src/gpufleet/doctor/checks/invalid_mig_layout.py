"""Nodes with MIG strategy single on which the cards are not all cut alike: such a node offers nothing."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.waiting import held_up_by
from gpufleet.kube.meanings.node_labels import MIG_STRATEGY, NVIDIA_PRODUCT


def judge(facts: Facts) -> Iterator[Failure]:
    """All nodes that feature discovery marks with an invalid MIG layout, in one failure."""
    nodes = [one for one in facts.gpu_nodes if one.labels.get(NVIDIA_PRODUCT, "").endswith("-MIG-INVALID")]
    if not nodes:
        return
    names = [one.name for one in nodes]
    yield Failure(
        f"{listed(names)}: MIG strategy single needs all cards cut into one profile, and they are not",
        tuple(one.title for one in nodes),
        tuple(
            f"{one.name}: label {name}={one.labels[name]}"
            for one in nodes
            for name in (NVIDIA_PRODUCT, MIG_STRATEGY)
            if name in one.labels
        ),
        (
            Remedy(
                "cut all cards alike",
                f"kubectl label node {names[0]} --overwrite nvidia.com/mig.config=all-1g.10gb",
            ),
            Remedy(
                "or set the strategy mixed, where each profile is a resource of its own",
                f"kubectl get node {names[0]} -L {MIG_STRATEGY}",
            ),
        ),
        frozenset(one.title for one in nodes) | held_up_by(facts, nodes),
    )


CHECK = Check(
    "mig-layout-invalid",
    Point.SHARING,
    Layer.DRIVER,
    "MIG layouts fit the strategy",
    "With the strategy single an instance is called nvidia.com/gpu, so all have to be the same.",
    judge,
    ("Node",),
)
