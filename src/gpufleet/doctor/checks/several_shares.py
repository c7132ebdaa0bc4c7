"""Work that asks for several shares as if they were several GPUs: rule GPU039 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.several_shares import RULE

CHECK = Check(
    "shares-several",
    Point.SHARING,
    Layer.PRACTICE,
    "A pod asks for one share of a GPU",
    "Two shares may be of the same card, and then are no more than one.",
    judged_by(RULE, "no container asks for several shares"),
    ("Node",),
    Grade.RISK,
)
