"""Feature discovery and MIG managers whose pods do not get up: nodes keep old labels and old layouts."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.failing import failures_of
from gpufleet.doctor.views.stack import Part


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each such DaemonSet that is no device plugin at the same time."""
    yield from failures_of(facts, Part.FEATURES, frozenset({Part.PLUGIN}))
    yield from failures_of(facts, Part.MIG_MANAGER, frozenset({Part.PLUGIN, Part.FEATURES}))


CHECK = Check(
    "discovery-failing",
    Point.STACK,
    Layer.STACK,
    "Feature discovery and MIG managers are well",
    "Selectors match labels that discovery writes; without it new nodes have none.",
    judge,
    ("DaemonSet", "Pod"),
)
