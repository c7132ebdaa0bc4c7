"""Workloads that name a RuntimeClass that is not there: rule GPU010 of lint, asked about what runs."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Layer, Point
from gpufleet.lint.rules.runtime_class import RULE

CHECK = Check(
    "runtime-class-missing",
    Point.STACK,
    Layer.ADMISSION,
    "RuntimeClasses that are named exist",
    "The API server refuses pods of a RuntimeClass that it does not know: not even a pending one is seen.",
    judged_by(RULE, "every RuntimeClass that a GPU workload names exists"),
    ("RuntimeClass",),
)
