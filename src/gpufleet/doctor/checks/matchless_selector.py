"""Workloads that select nodes by labels that no node has: rule GPU019 of lint, asked about what runs."""

from collections.abc import Iterator

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Unjudged
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.growth import overdue
from gpufleet.lint.rules.matchless_selector import RULE


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """What the rule says of work for which nodes do not come by themselves, or have not come."""
    yield from judged_by(RULE, "every selector of GPU work matches a node", only=overdue(facts))(facts)


CHECK = Check(
    "selector-matches-nothing",
    Point.PLACING,
    Layer.PLACEMENT,
    "Selectors of GPU work match nodes",
    "A selector is compared letter by letter; one that matches nothing waits for ever without an error.",
    judge,
    ("Node",),
)
