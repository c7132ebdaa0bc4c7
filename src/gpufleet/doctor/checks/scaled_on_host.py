"""Autoscalers of GPU work that look at CPU or memory alone: rule GPU027 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.scaled_on_cpu import RULE

CHECK = Check(
    "scaled-on-cpu",
    Point.SCALING,
    Layer.PRACTICE,
    "GPU work is scaled by what waits, not by CPU",
    "A GPU server is full while its CPU has little to do, so such an autoscaler comes too late or never.",
    judged_by(
        RULE, "no autoscaler of GPU work looks at CPU alone", ("HorizontalPodAutoscaler", "ScaledObject")
    ),
    ("HorizontalPodAutoscaler",),
    Grade.RISK,
)
