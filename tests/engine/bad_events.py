"""Events that make no sense by what is known, by an account of its own: the engine must refuse them."""

from collections.abc import Mapping

from gpufleet.engine import event
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node
from tests.engine.queueing.quota_ledger import is_bad


def is_bad_event(happened: event.Event, nodes: Mapping[NodeName, Node]) -> bool:
    """True for an event that must change nothing."""
    if isinstance(happened, event.NodeSet):
        own = happened.node.name
        others = {one.id for name, node in nodes.items() if name != own for one in node.devices}
        ids = [one.id for one in happened.node.devices]
        return len(set(ids)) < len(ids) or not others.isdisjoint(ids)
    if isinstance(happened, event.DeviceSet):
        node = nodes.get(happened.node)
        return node is None or happened.device.id not in {one.id for one in node.devices}
    if isinstance(happened, event.GangSet):
        return happened.gang.min_members < 1
    if isinstance(happened, event.QueueSet):
        return is_bad(happened.queue)
    if isinstance(happened, event.PodAdded):
        return not 0 <= happened.pod.shape.gpu.gpu_milli <= 1000
    return False
