"""The node's GPUs are not given out in the way that the pod asks for: whole, or in parts."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.device import Serves
from gpufleet.model.phrases import listed

BIT = 1 << 8


def finding(case: Case) -> Finding:
    """In which way the GPUs are given out there, and which nodes give them out as the pod asks."""
    kind, wanted = ("whole GPUs", Serves.WHOLE) if case.shape.gpu.whole else ("parts of GPUs", Serves.SHARE)
    other = "parts only" if case.shape.gpu.whole else "whole only, or not at all"
    serving = [node.name for node in case.nodes if any(device.serves & wanted for device in node.devices)]
    why = f"the GPUs of {case.near_names} are given out {other}; it asks for {kind}"
    way = f"{listed(serving)} give out {kind}" if serving else f"no node gives out {kind}; ask for the other"
    return Finding(why, (way,))


REASON = NodeReason(
    "gpu-sharing",
    BIT,
    height=9,
    kind=Kind.CHANGE,
    words="whose GPUs do not serve this kind of request",
    remedy="their GPUs served this kind of request",
    finding=finding,
)
