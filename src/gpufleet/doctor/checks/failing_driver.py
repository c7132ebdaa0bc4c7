"""DaemonSets that bring the driver or the container toolkit, whose pods do not get up."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.failing import failures_of
from gpufleet.doctor.views.stack import Part


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each such DaemonSet."""
    yield from failures_of(facts, Part.DRIVER)
    yield from failures_of(facts, Part.TOOLKIT, frozenset({Part.DRIVER}))


CHECK = Check(
    "driver-failing",
    Point.STACK,
    Layer.DRIVER,
    "Drivers and toolkits that run as pods are well",
    "Without driver and toolkit no other part of the stack sees a GPU.",
    judge,
    ("DaemonSet", "Pod"),
)
