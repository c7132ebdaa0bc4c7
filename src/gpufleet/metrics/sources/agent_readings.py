"""What an agent measured of the pods and the GPUs of its node, as readings. Pure.

Each card tells how old its measurement is, and a reading is as old as that. A card that does not tell has no
readings. A pod's power is that of its whole cards; for parts of cards it follows from their energy, between
this measurement and an earlier one.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gpufleet.metrics import catalogue
from gpufleet.metrics.reading import NODE_KIND, ObjectKey, Reading
from gpufleet.usage.agent_use import DeviceUse, NodeUse, power_of

OF_PODS = {catalogue.POD_USED: "used_ratio", catalogue.POD_MEMORY: "memory_used_bytes"}
OF_NODES = {
    catalogue.NODE_BUSY: "busy_ratio",
    catalogue.NODE_MEMORY: "memory_used_bytes",
    catalogue.NODE_POWER: "power_watts",
}
APART_S = (2.0, 60.0)
"""Two pages that power is worked out from are at least, and at most, so far apart."""


class Amount(NamedTuple):
    """What a card, or an instance of it, tells; None where it does not."""

    card: str
    instance: str
    amount: float | None


def readings_of(
    metric: str, key: ObjectKey, node: str, use: NodeUse, before: NodeUse | None
) -> tuple[list[Reading], str]:
    """The readings of an object, or why one of its GPUs has none: a sum without one would be too small."""
    if key.resource == NODE_KIND.resource:
        field = OF_NODES[metric]
        of_cards = (Amount(uuid, "", getattr(card, field)) for uuid, card in use.cards.items())
        return _readings(of_cards, use, f"a GPU of node {node} tells nothing of it")
    devices = use.pods.get((key.namespace, key.name), {})
    if not devices:
        return [], "the agent of its node knows of no GPU that it holds"
    earlier = {} if before is None else before.pods.get((key.namespace, key.name), {})
    since_s = 0.0 if before is None else use.at_s - before.at_s
    of_devices = (
        Amount(device.card, device.instance, _amount(metric, device, use, earlier.get(id_), since_s))
        for id_, device in devices.items()
    )
    return _readings(of_devices, use, "one of its GPUs tells nothing of it")


def _amount(
    metric: str, device: DeviceUse, use: NodeUse, before: DeviceUse | None, since_s: float
) -> float | None:
    if metric == catalogue.POD_POWER:
        return power_of(device, use, before, since_s)
    found: float | None = getattr(device, OF_PODS[metric])
    return found


def _readings(amounts: Iterable[Amount], use: NodeUse, missing: str) -> tuple[list[Reading], str]:
    found = []
    for one in amounts:
        card = use.cards.get(one.card)
        if one.amount is None or card is None or card.sample_age_s is None:
            return [], missing
        labels = {"uuid": one.card, **({"mig_id": one.instance} if one.instance else {})}
        found.append(Reading(one.amount, use.at_s - card.sample_age_s, labels))
    return found, "" if found else missing
