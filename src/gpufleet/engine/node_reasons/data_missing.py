"""The node has no complete copy of a model or dataset without which the pod does not start."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import listed

BIT = 1 << 37


def finding(case: Case) -> Finding:
    """Which data is missing."""
    asks = case.shape.relations.data.asks
    lacking = sorted({str(ask) for node in case.near for ask in asks if not ask.is_met_by(node.data)})
    why = f"{case.near_names} would do, but no complete copy of {listed(lacking)} is there"
    return Finding(
        why,
        ("copy the data to a folder of that node that its agent reads", "let the pod only prefer its data"),
    )


REASON = NodeReason(
    "data-missing",
    BIT,
    height=5,
    kind=Kind.UNMET,
    words="without a model or dataset that the pod requires",
    remedy="it can run once the data that it requires is on a node where there is room",
    finding=finding,
)
"""Required data is a reason; data that is only preferred counts in the choice (``choose.related_places``)."""
