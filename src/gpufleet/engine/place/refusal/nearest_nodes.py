"""What stands between a shape and the nodes that would need the least change to take it.

Most nodes fail for reasons that cannot be changed: a pod that wants GPUs is refused by every node without
any. So the reasons that matter are not those of most nodes, but those of the nodes that come nearest: where
work must only end, before those where a taint or the pod's selector must be changed, before those that could
never take it. ``verdict`` collects the reasons by node.
"""

from operator import neg

from gpufleet.engine.instruction import NodesLacking
from gpufleet.engine.node_reasons.table import TABLE, ReasonTable


def lowest(nodes_by_reasons: dict[int, int], table: ReasonTable = TABLE) -> NodesLacking | None:
    """The reasons shared by the nodes that would need the least change; None without a refusal.

    Of equally low obstacles that of the most nodes, then the one told first.
    """
    if not nodes_by_reasons:
        return None
    heights = map(table.height, nodes_by_reasons)
    _, minus_nodes, found = min(
        zip(heights, map(neg, nodes_by_reasons.values()), nodes_by_reasons, strict=True)
    )
    return NodesLacking(table.hardest_first(found), -minus_nodes)
