"""Work for which nvidia.com/gpu is a MIG instance here and a whole GPU there: rule GPU043 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.mixed_strategies import RULE

CHECK = Check(
    "mig-strategies-mixed",
    Point.SHARING,
    Layer.PRACTICE,
    "A resource means the same on every node",
    "A pod that is written for a whole GPU may land on a seventh of one.",
    judged_by(RULE, "nvidia.com/gpu means the same on every node that may take GPU work"),
    ("Node",),
    Grade.RISK,
)
