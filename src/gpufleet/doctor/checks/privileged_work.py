"""GPU work that runs privileged on nodes with GPUs: rule GPU006 of lint."""

from gpufleet.doctor.by_rule import judged_by, on_gpu_nodes
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.privileged import RULE

CHECK = Check(
    "gpu-work-privileged",
    Point.SECURITY,
    Layer.PRACTICE,
    "GPU work runs without privileges",
    "A privileged container sees every GPU of its node, and may do with the node what it likes.",
    judged_by(RULE, "no GPU workload is privileged", only=on_gpu_nodes),
    ("Pod", "Node"),
    Grade.RISK,
)
