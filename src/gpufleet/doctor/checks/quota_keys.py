"""Quotas that cannot count GPUs, and limit ranges that hand them out: rule GPU051 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.quota_names import RULE

CHECK = Check(
    "quota-keys",
    Point.QUOTAS,
    Layer.ADMISSION,
    "Quotas count GPUs",
    "Of an extended resource only requests are counted: a quota on limits.nvidia.com/gpu limits nobody.",
    judged_by(RULE, "every quota on GPUs counts requests", ("ResourceQuota", "LimitRange")),
    ("ResourceQuota", "LimitRange"),
    Grade.RISK,
)
