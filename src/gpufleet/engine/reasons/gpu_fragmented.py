"""Enough GPU is free on the node in sum, but in pieces that are too small or too far apart."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 12

REASON = NodeReason(
    "gpu-fragmented",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="with enough free GPU in sum, but in pieces too small",
)
