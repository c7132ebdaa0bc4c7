"""GPUs that their node's agent has taken out of service, and why: an Xid, a lost card, memory that fails."""

import re
from collections.abc import Iterator

from gpufleet.devices.xid import XidAction, xid
from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.waiting import held_up_by

_XID = re.compile(r"\bXid (\d+)")
_WAYS = {
    XidAction.QUIET: "wait: it comes back by itself when it has been quiet for a while",
    XidAction.RESET: "drain the node, and reset the card there: nvidia-smi --gpu-reset -i {id}",
    XidAction.GONE: "drain and reboot the node; a card that is lost again is to be replaced",
}
_OTHERWISE = "look at the card: nvidia-smi -q -i {id} on the node"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The nodes with such devices, each with all of them."""
    sick = {node.name: cards for node in facts.gpu_nodes if (cards := sick_cards(node))}
    for node in facts.gpu_nodes:
        if node.name in sick:
            yield _failure(facts, node, sick[node.name])
    if not sick and any(node.device_fields for node in facts.gpu_nodes):
        yield Good("no agent has taken a GPU out of service")


def sick_cards(node: NodeView) -> dict[str, str]:
    """What is said of each card that is not healthy. Parts of a card are told as the card."""
    found: dict[str, str] = {}
    for device in node.device_fields:
        health = device.text_at("health") or "healthy"
        if health != "healthy":
            card = (device.text_at("id") or "").partition("::")[0]
            found.setdefault(card, f"{health}: {device.text_at('healthReason') or 'no reason is told'}")
    return found


def _failure(facts: Facts, node: NodeView, cards: dict[str, str]) -> Failure:
    card, why = next(iter(cards.items()))
    known = _XID.search(why)
    way = _WAYS.get(xid(int(known[1])).action, _OTHERWISE) if known else _OTHERWISE
    return Failure(
        f"{node.name}: {len(cards)} of its GPUs out of service, {listed(dict.fromkeys(cards.values()))}",
        (node.title, *cards),
        tuple(f"{one}: {told}" for one, told in cards.items()),
        (
            Remedy(
                way.format(id=card), f"kubectl drain {node.name} --ignore-daemonsets --delete-emptydir-data"
            ),
        ),
        frozenset({node.title, *cards}) | ({*held_up_by(facts, [node])} if not node.offers else set()),
    )


CHECK = Check(
    "devices-sick",
    Point.STACK,
    Layer.DRIVER,
    "GPUs are in service",
    "Nothing new is placed on such a card, and what runs there may already be wrong.",
    judge,
    ("Node", "NodeDevices"),
)
