"""Work on GPU nodes that takes GPUs by an environment variable: rule GPU004 of lint."""

from gpufleet.doctor.by_rule import judged_by, on_gpu_nodes
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.visible_devices_bypass import RULE

CHECK = Check(
    "devices-by-variable",
    Point.SECURITY,
    Layer.PRACTICE,
    "GPUs are asked for, not taken by NVIDIA_VISIBLE_DEVICES",
    "Whoever names devices in that variable runs on GPUs that the scheduler has given to others.",
    judged_by(RULE, "no workload takes GPUs by a variable", only=on_gpu_nodes),
    ("Pod", "Node"),
    Grade.RISK,
)
