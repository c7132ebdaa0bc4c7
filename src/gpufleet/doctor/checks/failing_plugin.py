"""Device plugins whose pods crash, cannot pull their image, or do not get ready."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.failing import failures_of
from gpufleet.doctor.views.stack import Part


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each device plugin."""
    yield from failures_of(facts, Part.PLUGIN)


CHECK = Check(
    "plugin-failing",
    Point.STACK,
    Layer.STACK,
    "Device plugins are well",
    "While the plugin of a node is down, the kubelet gives none of its GPUs to new pods.",
    judge,
    ("DaemonSet", "Pod"),
)
