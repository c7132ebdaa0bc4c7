"""Label requirements, label selectors and node affinity, with the meaning Kubernetes gives them.

What is malformed cannot be made: the constructors check what the API server and the scheduler check, and
raise InputError. A requirement can be asked value by value (``accepts_value``), so that the engine judges
each distinct value of a label once and not each node; what two requirements allow together is
``label_values``' business, and the advice for a selector that matches nothing is ``label_advice``'s.
"""

import bisect
import enum
from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.model import label_values
from gpufleet.model.label_syntax import (
    check_label_key,
    check_label_value,
    is_subdomain,
)
from gpufleet.model.label_values import LabelValues, integer_in
from gpufleet.model.model_errors import InputError

MAXIMUM_WEIGHT = 100
"""The API server's limit for the weight of a preference."""


class Operator(enum.Enum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


# Operators with a list of values, and those with one number.
_LISTING = (Operator.IN, Operator.NOT_IN)
_COMPARING = (Operator.GREATER, Operator.LESS)


class Requirement(msgspec.Struct, frozen=True, cache_hash=True):
    """One condition on one label. Values are kept sorted and once each, so equals are equal."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_label_key(self.key)
        _check_count(self.operator, self.values)
        for value in self.values:
            check_label_value(value, "values")
            if self.operator in _COMPARING and integer_in(value) is None:
                problem = f"{self.operator.value} compares integers"
                expected = "an integer from 0 to 9223372036854775807"
                raise InputError(problem, field="values", value=value, expected=expected)
        msgspec.structs.force_setattr(self, "values", tuple(sorted(set(self.values))))

    def accepts_value(self, value: str | None) -> bool:
        """True if a label with this value satisfies the requirement; None: no such label."""
        if self.operator in _COMPARING:
            return self._compares(value)
        if self.operator is Operator.EXISTS:
            return value is not None
        if self.operator is Operator.DOES_NOT_EXIST:
            return value is None
        return self._lists(value) == (self.operator is Operator.IN)

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels satisfies the requirement."""
        return self.accepts_value(labels.get(self.key))

    def allowed_values(self) -> LabelValues:
        """The set of values that satisfy the requirement."""
        return _allowed_values(self)

    def _lists(self, value: str | None) -> bool:
        if value is None:
            return False
        position = bisect.bisect_left(self.values, value)
        return position < len(self.values) and self.values[position] == value

    def _compares(self, value: str | None) -> bool:
        found = None if value is None else integer_in(value)
        bound = integer_in(self.values[0])
        if found is None or bound is None:
            return False
        return found > bound if self.operator is Operator.GREATER else found < bound

    def __str__(self) -> str:
        """The requirement as people write it: "zone In [a, b]"."""
        listed = f" [{', '.join(self.values)}]" if self.values else ""
        return f"{self.key} {self.operator.value}{listed}"


def _check_count(operator: Operator, values: tuple[str, ...]) -> None:
    if operator in _LISTING and not values:
        raise InputError(f"{operator.value} without values", field="values", expected="at least one")
    if operator in _COMPARING and len(values) != 1:
        problem = f"{operator.value} with {len(values)} values"
        raise InputError(problem, field="values", expected="exactly one integer")
    if operator not in (*_LISTING, *_COMPARING) and values:
        problem = f"{operator.value} with values"
        raise InputError(problem, field="values", value=values[0], expected="none")


def _allowed_values(requirement: Requirement) -> LabelValues:
    match requirement.operator:
        case Operator.IN:
            return label_values.only(requirement.values)
        case Operator.NOT_IN:
            return label_values.only(requirement.values).complement()
        case Operator.EXISTS:
            return label_values.PRESENT
        case Operator.DOES_NOT_EXIST:
            return label_values.ABSENT
        case Operator.GREATER:
            bound = int(requirement.values[0])
            return label_values.integers_between(bound + 1, label_values.MAXIMUM_INTEGER)
        case Operator.LESS:
            return label_values.integers_between(0, int(requirement.values[0]) - 1)


def equals(labels: Iterable[tuple[str, str]]) -> tuple[Requirement, ...]:
    """The requirements that say the same as a plain node selector."""
    return tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels)


def allowed_by_key(requirements: Iterable[Requirement]) -> dict[str, LabelValues]:
    """What all requirements together allow for each label that they name."""
    found: dict[str, LabelValues] = {}
    for requirement in requirements:
        before = found.get(requirement.key, label_values.ANYTHING)
        found[requirement.key] = before.intersection(requirement.allowed_values())
    return found


def contradictions(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """The labels of which no value, nor absence, can satisfy all requirements at once."""
    allowed = allowed_by_key(requirements)
    return tuple(key for key in sorted(allowed) if allowed[key].is_empty())


class LabelSelector(msgspec.Struct, frozen=True, cache_hash=True):
    """A selector of pods or nodes by label; without requirements it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def __post_init__(self) -> None:
        for requirement in self.requirements:
            if requirement.operator in _COMPARING:
                problem = "a label selector does not compare"
                expected = "In, NotIn, Exists or DoesNotExist"
                operator = requirement.operator.value
                raise InputError(problem, field="operator", value=operator, expected=expected)

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """True if the labels satisfy every requirement."""
        return all(requirement.accepts(labels) for requirement in self.requirements)


class NodeNameRequirement(msgspec.Struct, frozen=True, cache_hash=True):
    """A match field: the node's name is, or is not, this one. There is no other field to match."""

    operator: Operator
    name: str

    def __post_init__(self) -> None:
        if self.operator not in _LISTING:
            operator = self.operator.value
            problem = "a node's name is not matched so"
            raise InputError(problem, field="operator", value=operator, expected="In or NotIn")
        if not is_subdomain(self.name):
            expected = "the name of one node"
            raise InputError("not a node name", field="values", value=self.name, expected=expected)

    def accepts_value(self, value: str | None) -> bool:
        """True if a node of this name satisfies the requirement; None: there is no node."""
        return (value == self.name) == (self.operator is Operator.IN)


class NodeTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Conditions on labels and on the name that must all hold; with none, no node matches."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[NodeNameRequirement, ...] = ()

    def accepts(self, labels: Mapping[str, str], name: str) -> bool:
        """True if a node with these labels and this name satisfies the term."""
        if not self.expressions and not self.fields:
            return False
        by_label = all(requirement.accepts(labels) for requirement in self.expressions)
        return by_label and all(requirement.accepts_value(name) for requirement in self.fields)


class PreferredTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A term that makes a node better by ``weight`` (1 to 100) and never forbids one."""

    weight: int
    term: NodeTerm

    def __post_init__(self) -> None:
        if not 1 <= self.weight <= MAXIMUM_WEIGHT:
            problem = "a weight out of range"
            expected = f"an integer from 1 to {MAXIMUM_WEIGHT}"
            raise InputError(problem, field="weight", value=self.weight, expected=expected)


class NodeAffinity(msgspec.Struct, frozen=True, cache_hash=True):
    """Node affinity. ``terms`` None asks for nothing; otherwise one of the terms must hold.

    An empty list of terms is not None: such a selector is there and matches no node.
    """

    terms: tuple[NodeTerm, ...] | None = None
    preferred: tuple[PreferredTerm, ...] = ()

    def accepts(self, labels: Mapping[str, str], name: str) -> bool:
        """True if a node with these labels and this name may be used."""
        return self.terms is None or any(term.accepts(labels, name) for term in self.terms)

    def preference(self, labels: Mapping[str, str], name: str) -> int:
        """The sum of the weights of the preferred terms that hold."""
        return sum(preferred.weight for preferred in self.preferred if preferred.term.accepts(labels, name))
