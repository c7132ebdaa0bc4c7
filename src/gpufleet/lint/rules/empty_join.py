"""GPU059: a query joins a metric of GPUs with one of Kubernetes over all labels, of which none are alike."""

import re
from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.queries import may_have_queries, queries_of
from gpufleet.lint.rule import Rule, RuleFinding, Severity

_SELECTOR = r"\s*(?:\{[^{}]*\})?\s*"
_OF_CARDS = r"DCGM_FI_\w+"
_OF_OBJECTS = r"kube_(?:pod|node|job|deployment|statefulset|namespace)_\w+"
_OPERATOR = r"(?:\*|/|\+|-|and\b|unless\b|>|<)\s*"
_JOIN = re.compile(
    rf"(?<![\w:])(?:({_OF_CARDS}){_SELECTOR}{_OPERATOR}({_OF_OBJECTS})"
    rf"|({_OF_OBJECTS}){_SELECTOR}{_OPERATOR}({_OF_CARDS}))(?![\w:]*\()"
)
"""Both stand there plain: no aggregation left labels away, and no ``on`` or ``ignoring`` says which count."""


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each query with such a join."""
    for query in queries_of(manifest):
        found = _JOIN.search(query.plain)
        if found is not None:
            left, right = (one for one in found.groups() if one)
            keeps = "drops nothing" if "unless" in found[0] else "is empty"
            says = f"{query.title} joins {left} with {right} over all labels: only one of them has those of a"
            says += f" card, so the result {keeps}"
            yield RuleFinding(query.field, says, "say which labels join: * on (namespace, pod) group_left")


RULE = Rule("GPU059", "Join without a common label", Severity.WARNING, check, concerns=may_have_queries)
