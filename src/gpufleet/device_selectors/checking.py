"""Types are given to an expression, and calls are settled to the overloads that fit.

Rules: the language definition of CEL, section "Gradual Type Checking". ``planning`` does the next step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from gpufleet.device_selectors.cel_errors import EvaluationError, ExpressionError
from gpufleet.device_selectors.expressions import (
    AND,
    CONDITIONAL,
    INDEX,
    NOT_STRICTLY_FALSE,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
    Call,
    Comprehension,
    Expression,
    ListLiteral,
    Literal,
    MapLiteral,
    Message,
    Name,
    Select,
)
from gpufleet.device_selectors.functions import Overload, function, method
from gpufleet.device_selectors.kubernetes_functions import KUBERNETES_FUNCTIONS
from gpufleet.device_selectors.list_functions import LIST_FUNCTIONS
from gpufleet.device_selectors.standard_functions import STANDARD_FUNCTIONS
from gpufleet.device_selectors.text_functions import TEXT_FUNCTIONS, compiled
from gpufleet.device_selectors.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    TYPE,
    A,
    B,
    Substitutions,
    Type,
    is_dynamic,
    list_of,
    map_of,
    most_general,
    optional_of,
)
from gpufleet.device_selectors.values import Value, type_name


def _none(*arguments: Value) -> Value:
    # Never called: these overloads give types alone, and ``planning`` makes their steps.
    raise NotImplementedError("a step of its own in planning")


_BY_PLANNING = (
    function(CONDITIONAL, (BOOL, A, A), A, _none),
    function(NOT_STRICTLY_FALSE, (BOOL,), BOOL, _none),
    method("or", (optional_of(A), optional_of(A)), optional_of(A), _none),
    method("orValue", (optional_of(A), A), A, _none),
    function(OPTIONAL_INDEX, (list_of(A), INT), optional_of(A), _none),
    function(OPTIONAL_INDEX, (optional_of(list_of(A)), INT), optional_of(A), _none),
    function(OPTIONAL_INDEX, (map_of(A, B), A), optional_of(B), _none),
    function(OPTIONAL_INDEX, (optional_of(map_of(A, B)), A), optional_of(B), _none),
    function(INDEX, (optional_of(list_of(A)), INT), optional_of(A), _none),
    function(INDEX, (optional_of(map_of(A, B)), A), optional_of(B), _none),
)
"""Calls whose arguments are not all evaluated first."""


def _by_name() -> Mapping[tuple[str, bool], tuple[Overload, ...]]:
    found: dict[tuple[str, bool], list[Overload]] = {}
    tables = (STANDARD_FUNCTIONS, TEXT_FUNCTIONS, LIST_FUNCTIONS, KUBERNETES_FUNCTIONS, _BY_PLANNING)
    for one in (one for table in tables for one in table):
        found.setdefault((one.function, one.is_method), []).append(one)
    return {name: tuple(overloads) for name, overloads in found.items()}


FUNCTIONS = _by_name()
"""All overloads of a function, by its name and whether it is called on a target."""

_TYPE_NAMES = frozenset(
    ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type")
)


@dataclass(slots=True)
class Checked:
    """An expression with the types of its parts and the overloads of its calls, by node."""

    expression: Expression
    type: Type
    types: dict[int, Type] = field(default_factory=dict)
    overloads: dict[int, tuple[Overload, ...]] = field(default_factory=dict)
    namespaced: dict[int, str] = field(default_factory=dict)
    """Names of calls such as ``sets.contains``, whose target is a part of the name."""
    type_names: set[int] = field(default_factory=set)
    """Names that are types (``int``) and no variables."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may name: variables, fields of types, and functions that are off."""

    variables: Mapping[str, Type]
    fields: Mapping[str, Mapping[str, Type]]
    without: frozenset[str] = frozenset()


def checked(expression: Expression, environment: Environment) -> Checked:
    """Give types to an expression. Raises ExpressionError where they do not fit."""
    checker = _Checker(environment)
    found = Checked(expression, ERROR)
    checker.found = found
    whole = checker.check(expression, dict(environment.variables))
    found.type = checker.known.resolved(whole, DYN)
    checker.validate()
    return found


class _Checker:
    """Walks an expression once; what is known of parameters grows on the way."""

    found: Checked

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.known = Substitutions()
        self._alike: list[list[tuple[Type, int]]] = []
        self._formats = 0

    def validate(self) -> None:
        """Elements of one list, and keys and values of one map, are of one type."""
        for group in self._alike:
            first = self.known.resolved(group[0][0], DYN)
            for one, offset in group[1:]:
                other = self.known.resolved(one, DYN)
                if other != first:
                    raise ExpressionError(f"expected type '{first}' but found '{other}'", offset)

    def _must_be_alike(self, group: list[tuple[Type, int]]) -> None:
        # What ``format`` writes may be of any types.
        if group and not self._formats:
            self._alike.append(group)

    def check(self, one: Expression, scope: dict[str, Type]) -> Type:
        """The type of a node, which is also written down."""
        found = self._of(one, scope)
        self.found.types[id(one)] = found
        return found

    def _of(self, one: Expression, scope: dict[str, Type]) -> Type:
        match one:
            case Literal():
                return Type(type_name(one.value))
            case Name():
                return self._name(one, scope)
            case Select():
                given = self._selected(one.operand, one.field, one.offset, scope)
                return BOOL if one.is_test else given
            case Call():
                return self._call(one, scope)
            case ListLiteral():
                return self._list(one, scope)
            case MapLiteral():
                return self._map(one, scope)
            case Message():
                raise ExpressionError(
                    f"undeclared reference to '{one.type_name}' (in container '')", one.offset
                )
            case Comprehension():
                return self._comprehension(one, scope)

    def _name(self, one: Name, scope: dict[str, Type]) -> Type:
        # A leading dot means the outermost scope, and there is no other one.
        name = one.name.removeprefix(".")
        if name in scope:
            return scope[name]
        if name in _TYPE_NAMES:
            self.found.type_names.add(id(one))
            return TYPE
        raise ExpressionError(f"undeclared reference to '{name}' (in container '')", one.offset)

    def _selected(self, operand: Expression, name: str, offset: int, scope: dict[str, Type]) -> Type:
        whole = self.known.resolved(self.check(operand, scope))
        is_optional = whole.name == "optional_type"
        target = whole.parts[0] if is_optional else whole
        if target.name == "map":
            given = target.parts[1]
        elif target.name in self.environment.fields:
            fields = self.environment.fields[target.name]
            if name not in fields:
                raise ExpressionError(f"undefined field '{name}'", offset)
            given = fields[name]
        elif target.is_parameter:
            self.known.fits((DYN,), (target,))
            given = DYN
        elif is_dynamic(target):
            given = DYN
        else:
            raise ExpressionError(f"type '{target}' does not support field selection", offset)
        return optional_of(given) if is_optional else given

    def _call(self, one: Call, scope: dict[str, Type]) -> Type:
        if one.function == OPTIONAL_SELECT:
            operand, name = one.arguments
            given = self._selected(operand, str(cast("Literal", name).value), one.offset, scope)
            return given if given.name == "optional_type" else optional_of(given)
        self._formats += one.function == "format"
        arguments = tuple([self.check(argument, scope) for argument in one.arguments])
        self._formats -= one.function == "format"
        _valid_pattern(one)
        if one.function in {AND, OR}:
            for argument, given in zip(one.arguments, arguments, strict=True):
                self._must_be(given, BOOL, argument.offset)
            return BOOL
        if one.target is None:
            return self._resolved(one, one.function, arguments, is_method=False)
        name_of = _dotted(one.target)
        # Before the target is checked: ``sets`` in ``sets.contains`` is no variable.
        if name_of is not None and (f"{name_of}.{one.function}", False) in FUNCTIONS:
            self.found.namespaced[id(one)] = f"{name_of}.{one.function}"
            return self._resolved(one, f"{name_of}.{one.function}", arguments, is_method=False)
        target = self.check(one.target, scope)
        return self._resolved(one, one.function, (target, *arguments), is_method=True)

    def _resolved(self, one: Call, name: str, given: tuple[Type, ...], is_method: bool) -> Type:
        is_known = any((name, kind) in FUNCTIONS for kind in (True, False))
        if not is_known or name in self.environment.without:
            raise ExpressionError(f"undeclared reference to '{name}' (in container '')", one.offset)
        fitting: list[Overload] = []
        result: Type | None = None
        for overload in FUNCTIONS.get((name, is_method), ()):
            takes, gives = self._fresh(overload)
            if not self.known.fits(given, takes):
                continue
            fitting.append(overload)
            gives = self.known.resolved(gives)
            if result is None:
                result = gives
            # Overloads with several results fit; which one it is shows only with the values.
            elif not is_dynamic(result) and gives != result:
                result = DYN
        if result is None:
            shown = ", ".join(str(self.known.resolved(each, DYN)) for each in given)
            raise ExpressionError(
                f"found no matching overload for '{name}' applied to '({shown})'", one.offset
            )
        self.found.overloads[id(one)] = tuple(fitting)
        return result

    def _fresh(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The types of an overload, with parameters of this call alone."""
        fresh = Substitutions({one: self.known.new_parameter() for one in (A, B)})
        return tuple([fresh.resolved(one) for one in overload.takes]), fresh.resolved(overload.gives)

    def _must_be(self, given: Type, wanted: Type, offset: int) -> None:
        if not self.known.fits((given,), (wanted,)):
            raise ExpressionError(
                f"expected type '{self.known.resolved(wanted, DYN)}' but found "
                f"'{self.known.resolved(given, DYN)}'",
                offset,
            )

    def _joined(self, before: Type | None, given: Type) -> Type:
        if before is None:
            return given
        return most_general(before, given) if self.known.fits((before,), (given,)) else DYN

    def _unwrapped(self, given: Type, is_optional: bool, offset: int) -> Type:
        if not is_optional or is_dynamic(given):
            return given
        if given.name != "optional_type":
            raise ExpressionError(f"expected type 'optional_type({given})' but found '{given}'", offset)
        return given.parts[0]

    def _list(self, one: ListLiteral, scope: dict[str, Type]) -> Type:
        element: Type | None = None
        group = []
        for at, each in enumerate(one.elements):
            given = self._unwrapped(self.check(each, scope), at in one.optional, each.offset)
            group.append((given, each.offset))
            element = self._joined(element, given)
        self._must_be_alike(group)
        return list_of(element or self.known.new_parameter())

    def _map(self, one: MapLiteral, scope: dict[str, Type]) -> Type:
        key: Type | None = None
        value: Type | None = None
        keys, values = [], []
        for entry in one.entries:
            keys.append((self.check(entry.key, scope), entry.key.offset))
            key = self._joined(key, keys[-1][0])
            given = self._unwrapped(self.check(entry.value, scope), entry.is_optional, entry.value.offset)
            values.append((given, entry.value.offset))
            value = self._joined(value, given)
        self._must_be_alike(keys)
        self._must_be_alike(values)
        return map_of(key or self.known.new_parameter(), value or self.known.new_parameter())

    def _comprehension(self, one: Comprehension, scope: dict[str, Type]) -> Type:
        over = self.known.resolved(self.check(one.elements, scope))
        total = self.check(one.start, scope)
        first, second = self._variables(over, one)
        outer = {**scope, one.accumulator: total}
        inner = {**outer, one.variable: first}
        if one.second is not None:
            inner[one.second] = second
        self._must_be(self.check(one.condition, inner), BOOL, one.condition.offset)
        self._must_be(self.check(one.step, inner), total, one.step.offset)
        return self.known.resolved(self.check(one.result, outer))

    def _variables(self, over: Type, one: Comprehension) -> tuple[Type, Type]:
        """The types of the loop's variables."""
        if over.name == "list":
            return (INT, over.parts[0]) if one.second is not None else (over.parts[0], ERROR)
        if over.name == "map":
            return over.parts[0], over.parts[1]
        if over in {DYN, ERROR} or over.is_parameter:
            self.known.fits((DYN,), (over,))
            return DYN, DYN
        raise ExpressionError(
            f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
            one.elements.offset,
        )


def _valid_pattern(one: Call) -> None:
    if one.function != "matches" or not one.arguments or not isinstance(one.arguments[-1], Literal):
        return
    pattern = one.arguments[-1].value
    if isinstance(pattern, str):
        try:
            compiled(pattern)
        except EvaluationError as error:
            raise ExpressionError(f"invalid matches argument: {error}", one.arguments[-1].offset) from None


def _dotted(one: Expression) -> str | None:
    """``a.b`` as a name, if it may be one."""
    if isinstance(one, Name):
        return one.name.removeprefix(".")
    if isinstance(one, Select) and not one.is_test and (before := _dotted(one.operand)) is not None:
        return f"{before}.{one.field}"
    return None
