"""Autoscalers that look at a GPU utilization which is full with one request: rule GPU028 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.scaled_on_utilization import RULE

CHECK = Check(
    "scaled-on-utilization",
    Point.SCALING,
    Layer.PRACTICE,
    "GPU work is scaled by what waits, not by GPU utilization",
    "That utilization says that some kernel runs, not how much of the GPU it takes: one request makes 100%.",
    judged_by(
        RULE, "no autoscaler looks at DCGM_FI_DEV_GPU_UTIL", ("HorizontalPodAutoscaler", "ScaledObject")
    ),
    ("HorizontalPodAutoscaler",),
    Grade.RISK,
)
