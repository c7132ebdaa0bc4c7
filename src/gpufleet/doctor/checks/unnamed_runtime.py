"""GPU workloads without the RuntimeClass that they need: rule GPU009 of lint, asked about what runs."""

from collections.abc import Iterator

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Unjudged
from gpufleet.doctor.facts import Facts
from gpufleet.lint.rules.runtime_not_named import RULE

_by_rule = judged_by(RULE, "GPU work gets NVIDIA's runtime")


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """What the rule says; without the operator no object tells which runtime nodes use."""
    if facts.of_kind("ClusterPolicy", group="nvidia.com"):
        yield from _by_rule(facts)


CHECK = Check(
    "runtime-class-unnamed",
    Point.STACK,
    Layer.START,
    "GPU work names the RuntimeClass that nodes need",
    "Where NVIDIA's runtime is not the default, only pods of its class find their GPUs.",
    judge,
    ("ClusterPolicy",),
)
