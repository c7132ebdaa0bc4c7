"""Karpenter's NodePools of GPU nodes without taint or limits: rule GPU050 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.open_pool import RULE

CHECK = Check(
    "node-pool-open",
    Point.SCALING,
    Layer.PRACTICE,
    "Pools of GPU nodes are tainted, bounded and served",
    "Without a taint any pod brings a GPU node; without limits there is no end to them, nor to the bill.",
    judged_by(RULE, "every NodePool of GPU nodes has a taint and limits", ("NodePool",)),
    ("NodePool",),
    Grade.RISK,
)
