"""Which nodes a pod selects: the conditions of its node selector and of its required affinity."""

from dataclasses import dataclass

from gpufleet.lint.source.fields import Field
from gpufleet.model.labels import Operator, Requirement


@dataclass(frozen=True)
class NodeConditionFact:
    """A requirement on nodes, and where it stands."""

    field: Field
    requirement: Requirement


NodeTerms = tuple[tuple[NodeConditionFact, ...], ...]
"""The ways in which a pod may select its node, each with all its conditions; one is enough."""

_REQUIRED_TERMS = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def node_terms(spec: Field) -> NodeTerms:
    """The ways in which the pod of this spec may select its node."""
    always = [
        condition
        for name, field in spec.at("nodeSelector").entries()
        if (condition := _condition(field, name, "In", [field.text or ""])) is not None
    ]
    terms = spec.items_at(*_REQUIRED_TERMS)
    if not terms:
        return (tuple(always),)
    return tuple((*always, *_of_term(term)) for term in terms)


def _of_term(term: Field) -> list[NodeConditionFact]:
    found = []
    for one in term.items_at("matchExpressions"):
        values = [value.text or "" for value in one.items_at("values")]
        condition = _condition(one, one.text_at("key") or "", one.text_at("operator") or "", values)
        if condition is not None:
            found.append(condition)
    return found


def _condition(field: Field, key: str, operator: str, values: list[str]) -> NodeConditionFact | None:
    try:
        return NodeConditionFact(field, Requirement(key, Operator(operator), tuple(values)))
    except ValueError:
        return None
