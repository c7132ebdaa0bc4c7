"""Selectors of labels and of nodes, as the model understands them.

The meaning is the model's (``model.labels``); here is how it is written, and a limit on how much of
it there may be, because every term costs work for each node or pod that it is held against.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from gpufleet.kube.codec.field_path import inside
from gpufleet.kube.objects import pod as wire
from gpufleet.kube.objects import selectors as written
from gpufleet.model.labels import (
    LabelSelector,
    NodeAffinity,
    NodeNameRequirement,
    NodeTerm,
    Operator,
    PreferredTerm,
    Requirement,
    equals,
)
from gpufleet.model.model_errors import InputError

# Far more than people write; a selector of a node's name lists at most all nodes.
MAXIMUM_TERMS = 1000
MAXIMUM_VALUES = 20_000
NODE_NAME_FIELD = "metadata.name"
"""The only field of a node that a node selector may ask for."""

Item = TypeVar("Item")
_OPERATORS = {operator.value: operator for operator in Operator}


def label_selector(selector: written.LabelSelector | None, field: str) -> LabelSelector | None:
    """The selector, None where there is none: that selects nothing, an empty one everything."""
    if selector is None:
        return None
    with inside(field):
        return LabelSelector(distinct((*_equal(selector.match_labels), *_expressions(selector))))


def with_equal(selector: LabelSelector, labels: Iterable[tuple[str, str]]) -> LabelSelector:
    """The selector that asks in addition for these labels."""
    return LabelSelector(distinct((*selector.requirements, *equals(labels))))


def node_affinity(affinity: wire.NodeAffinity | None, field: str) -> NodeAffinity:
    """Required and preferred node affinity."""
    if affinity is None:
        return NodeAffinity()
    return NodeAffinity(
        node_terms(affinity.required, f"{field}.requiredDuringSchedulingIgnoredDuringExecution"),
        tuple(
            _preferred(term, f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{position}]")
            for position, term in enumerate(_bounded(affinity.preferred, MAXIMUM_TERMS, field))
        ),
    )


def node_terms(selector: written.NodeSelector | None, field: str) -> tuple[NodeTerm, ...] | None:
    """The terms of which one must hold; None where nothing is asked for."""
    if selector is None:
        return None
    place = f"{field}.nodeSelectorTerms"
    terms = _bounded(selector.node_selector_terms, MAXIMUM_TERMS, place)
    return tuple(_node_term(term, f"{place}[{position}]") for position, term in enumerate(terms))


def node_selector(selector: Mapping[str, str], field: str) -> tuple[tuple[str, str], ...]:
    """A plain node selector, sorted, with the syntax of labels checked."""
    with inside(field):
        pairs = tuple(sorted(_bounded(tuple(selector.items()), MAXIMUM_TERMS, "")))
        equals(pairs)
    return pairs


def requirement(expression: written.SelectorRequirement) -> Requirement:
    """One condition on a label."""
    values = _bounded(expression.values, MAXIMUM_VALUES, "values")
    return Requirement(expression.key, _operator(expression.operator), values)


def distinct(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """The requirements sorted, once each: selectors that differ only in order or repeats become equal."""
    once = dict.fromkeys(requirements)
    return tuple(sorted(once, key=lambda item: (item.key, item.operator.value, item.values)))


def _equal(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    with inside("matchLabels"):
        return equals(_bounded(tuple(labels.items()), MAXIMUM_TERMS, ""))


def _expressions(selector: written.LabelSelector) -> Iterable[Requirement]:
    listed = _bounded(selector.match_expressions, MAXIMUM_TERMS, "matchExpressions")
    for position, expression in enumerate(listed):
        with inside(f"matchExpressions[{position}]"):
            yield requirement(expression)


def _node_term(term: written.NodeSelectorTerm, field: str) -> NodeTerm:
    with inside(field):
        expressions = []
        for position, expression in enumerate(
            _bounded(term.match_expressions, MAXIMUM_TERMS, "matchExpressions")
        ):
            with inside(f"matchExpressions[{position}]"):
                expressions.append(requirement(expression))
        names = []
        for position, expression in enumerate(_bounded(term.match_fields, MAXIMUM_TERMS, "matchFields")):
            with inside(f"matchFields[{position}]"):
                names.append(_node_name(expression))
    return NodeTerm(distinct(expressions), tuple(names))


def _node_name(expression: written.SelectorRequirement) -> NodeNameRequirement:
    if expression.key != NODE_NAME_FIELD:
        problem = "a field that cannot be matched"
        raise InputError(problem, field="key", value=expression.key, expected=NODE_NAME_FIELD)
    if len(expression.values) != 1:
        problem = f"{len(expression.values)} names"
        raise InputError(problem, field="values", expected="exactly one node's name")
    return NodeNameRequirement(_operator(expression.operator), expression.values[0])


def _preferred(term: wire.PreferredNodeTerm, field: str) -> PreferredTerm:
    node_term = _node_term(term.preference, f"{field}.preference")
    with inside(field):
        return PreferredTerm(term.weight, node_term)


def _operator(text: str) -> Operator:
    operator = _OPERATORS.get(text)
    if operator is None:
        raise InputError("unknown", field="operator", value=text, expected=", ".join(_OPERATORS))
    return operator


def _bounded(items: tuple[Item, ...], most: int, field: str) -> tuple[Item, ...]:
    if len(items) > most:
        raise InputError(f"{len(items)} entries", field=field, expected=f"at most {most}")
    return items
