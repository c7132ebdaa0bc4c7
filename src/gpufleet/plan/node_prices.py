"""What a node costs by a catalogue: the price of its type, where it is, by how it is paid."""

from collections.abc import Mapping

from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE, REGION, ZONE
from gpufleet.kube.objects.node import Node
from gpufleet.ledger.node_versions import SPOT
from gpufleet.model.spot import is_spot
from gpufleet.plan.instance_types import Catalogue


def price_micro(node: Node, catalogue: Catalogue) -> int | None:
    """What such a node costs for an hour, in micro-units; None where the catalogue has no price for it."""
    return price_of_labels(node.metadata.labels, catalogue)


def price_of_labels(labels: Mapping[str, str], catalogue: Catalogue) -> int | None:
    """What a node with these labels costs for an hour; None where the catalogue has no price for it."""
    found = [
        one.price_micro
        for one in catalogue.types
        if one.name == labels.get(INSTANCE_TYPE)
        and one.region in {"", labels.get(REGION)}
        and one.zone in {"", labels.get(ZONE)}
        and (one.capacity_type == SPOT) == is_spot(labels)
    ]
    return min(found, default=None)
