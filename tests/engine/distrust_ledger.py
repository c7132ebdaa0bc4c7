"""An independent account of nodes that are left alone because their kubelets turn pods away."""

import msgspec

from gpufleet.engine import event
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node
from gpufleet.model.taint import Taint

SECOND_US = 1_000_000
NO_POD_TOLERATES = Taint("left-alone")


class DistrustLedger:
    """Three rejections within ten minutes cost a node a minute, and twice as long each further time."""

    def __init__(self) -> None:
        self.rejected_at_us: dict[NodeName, list[int]] = {}
        self.until_us: dict[NodeName, int] = {}
        self.times: dict[NodeName, int] = {}

    def hear(self, happened: event.Event, at_us: int) -> None:
        """A fact came in."""
        match happened:
            case event.KubeletRejected(node):
                known = self.rejected_at_us.setdefault(node, [])
                known.append(at_us)
                recent = [then for then in known if then > at_us - 600 * SECOND_US]
                if len(recent) >= 3 and self.until_us.get(node, 0) <= at_us:
                    pause_s = min(3600, 60 * 2 ** self.times.get(node, 0))
                    end_s = -(-at_us // SECOND_US) + pause_s
                    self.times[node] = self.times.get(node, 0) + 1
                    self.until_us[node] = end_s * SECOND_US
                    known.clear()
            case event.NodeRemoved(node):
                for account in (self.rejected_at_us, self.until_us, self.times):
                    account.pop(node, None)

    def seen(self, node: Node, at_us: int) -> Node:
        """A node as it is to be held against pods."""
        if at_us >= self.until_us.get(node.name, 0):
            return node
        return msgspec.structs.replace(node, taints=(*node.taints, NO_POD_TOLERATES))
