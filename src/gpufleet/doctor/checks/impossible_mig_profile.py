"""Workloads that ask for a MIG instance that no card can be cut into: rule GPU042 of lint."""

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Layer, Point
from gpufleet.lint.rules.mig_profile import RULE

CHECK = Check(
    "mig-profile-impossible",
    Point.SHARING,
    Layer.OFFER,
    "MIG profiles that pods ask for exist",
    "Each card has its own profiles: 3g.20gb is of an A100 with 40 GB, 3g.40gb of one with 80 GB.",
    judged_by(RULE, "some card can be cut into every MIG profile that is asked for"),
    ("Node",),
)
