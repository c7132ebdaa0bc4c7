"""Work on GPU nodes that mounts device files of GPUs from the node: rule GPU007 of lint."""

from gpufleet.doctor.by_rule import judged_by, on_gpu_nodes
from gpufleet.doctor.check import Check, Grade, Layer, Point
from gpufleet.lint.rules.device_files import RULE

CHECK = Check(
    "devices-mounted",
    Point.SECURITY,
    Layer.PRACTICE,
    "GPUs come from the device plugin, not from hostPath",
    "A GPU that is mounted is counted by nobody, so it is given to somebody else too.",
    judged_by(RULE, "no workload mounts device files of GPUs", only=on_gpu_nodes),
    ("Pod", "Node"),
    Grade.RISK,
)
