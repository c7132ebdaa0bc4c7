"""Configurations that offer shares under the name of whole GPUs: rule GPU040 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.hidden_shares import RULE

CHECK = Check(
    "shares-hidden",
    Point.SHARING,
    Layer.PRACTICE,
    "Shares have a name of their own",
    "Who asks for a GPU gets a part of one, and cost and quotas count it as whole.",
    judged_by(RULE, "no plugin offers shares under the name of whole GPUs", ("ConfigMap",)),
    ("ConfigMap",),
    Grade.RISK,
)
