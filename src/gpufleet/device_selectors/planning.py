"""A checked expression becomes steps that compute its value and count what it costs.

Constants, conversions of constants and memberships in constant lists are computed here, once, as Kubernetes'
library does: they cost nothing later. ``steps`` and ``calls`` have the steps.
"""

from gpufleet.device_selectors.calls import (
    BOTH,
    alternative,
    called,
    junction,
    membership,
    not_strictly_false,
)
from gpufleet.device_selectors.cel_errors import EvaluationError, ExpressionError
from gpufleet.device_selectors.checking import FUNCTIONS, Checked
from gpufleet.device_selectors.expressions import (
    INDEX,
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
from gpufleet.device_selectors.functions import LIST_COST
from gpufleet.device_selectors.steps import (
    Chain,
    Constant,
    Frame,
    Later,
    Qualifier,
    Step,
    raising,
    tested,
    unpaid,
)
from gpufleet.device_selectors.values import Optional, TypeValue, Uint, Value, elements, is_equal

MAP_COST = 30
"""Of a map that is made (cel-go: MapCreateBaseCost)."""

PATTERNS = frozenset(("matches", "find", "findAll"))
"""Functions that are prepared for a constant pattern, and then compute nothing more after an error."""

_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
"""Conversions of a constant are computed once, before any device is there."""


def planned(checked: Checked) -> Step:
    """The steps of an expression. Raises ExpressionError where a constant in it has no value."""
    return _Planner(checked).plan(checked.expression)


class _Planner:
    """Makes a step of each node."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked

    def plan(self, one: Expression) -> Step:
        match one:
            case Literal():
                return Constant(one.value)
            case Name() | Select():
                return self._selected(one) if isinstance(one, Select) else self._name(one)
            case Call():
                return self._call(one)
            case ListLiteral():
                return self._list(one)
            case MapLiteral():
                return self._map(one)
            case Comprehension():
                return self._comprehension(one)
            case Message():
                raise ExpressionError(f"undeclared reference to '{one.type_name}'", one.offset)

    def _name(self, one: Name) -> Step:
        name = one.name.removeprefix(".")
        if id(one) in self._checked.type_names:
            return Constant(TypeValue(name))

        def value(frame: Frame) -> Value:
            held = frame.variables[name]
            if type(held) is Later:
                here = frame.variables
                frame.variables = held.scope
                try:
                    here[name] = held.start(frame)
                except EvaluationError as error:
                    # It is computed once, also where it fails.
                    here[name] = Later(raising(error), here)
                    raise
                finally:
                    frame.variables = here
                return here[name]
            return held

        return Chain(value)

    def _chain(self, operand: Expression) -> Chain:
        step = self.plan(operand)
        return step if isinstance(step, Chain) else Chain(step)

    def _selected(self, one: Select) -> Step:
        chain = self._chain(one.operand)
        longer = Chain(
            chain.begin, [*chain.qualifiers, Qualifier(Constant(one.field), is_optional=False)], chain.cost
        )
        return tested(longer, one.field) if one.is_test else longer

    def _call(self, one: Call) -> Step:
        match one.function:
            case "_&&_" | "_||_":
                return junction([self.plan(each) for each in one.arguments], one.function == OR)
            case "_?_:_":
                return self._conditional(one)
            case "@not_strictly_false":
                return not_strictly_false(self.plan(one.arguments[0]))
            case "_[_]" | "_[?_]" | "_?._":
                return self._indexed(one)
            case "or" | "orValue" if one.target is not None:
                return alternative(self.plan(one.target), self.plan(one.arguments[0]), one.function)
        return self._function(one)

    def _indexed(self, one: Call) -> Step:
        operand, key = one.arguments
        chain, step = self._chain(operand), self.plan(key)
        if isinstance(step, Chain):
            # A key is looked up as a part of this chain, at no cost of its own.
            step = unpaid(step)
        return Chain(chain.begin, [*chain.qualifiers, Qualifier(step, one.function != INDEX)], chain.cost)

    def _conditional(self, one: Call) -> Step:
        condition, yes, no = [self.plan(each) for each in one.arguments]

        def branch(step: Step) -> Step:
            # A branch that is a chain is paid for by the chain of the condition.
            return step.whole if isinstance(step, Chain) else step

        taken, other = branch(yes), branch(no)

        def value(frame: Frame) -> Value:
            held = condition(frame)
            if type(held) is not bool:
                raise EvaluationError("no such overload")
            return taken(frame) if held else other(frame)

        return Chain(value, cost=0)

    def _function(self, one: Call) -> Step:
        name = self._checked.namespaced.get(id(one))
        target = () if one.target is None or name else (one.target,)
        steps = [self.plan(each) for each in (*target, *one.arguments)]
        overloads = self._checked.overloads[id(one)]
        if one.function == "@in" and isinstance(steps[1], Constant) and len(overloads) == 1:
            short = membership(steps[0], steps[1].value)
            if short is not None:
                return short
        # The checker leaves those that may fit; which one does is seen by the values where types are dynamic.
        every = FUNCTIONS.get((name or one.function, bool(target)), ())
        is_prepared = one.function in PATTERNS and isinstance(steps[-1], Constant)
        step = called(one.function, steps, overloads, every, both=0 if is_prepared else BOTH)
        if one.function in _CONVERSIONS and len(steps) == 1 and isinstance(steps[0], Constant):
            return folded(step, one.offset)
        return step

    def _list(self, one: ListLiteral) -> Step:
        steps = [self.plan(each) for each in one.elements]
        optional = one.optional
        if not optional and all(isinstance(step, Constant) for step in steps):
            return Constant([step.value for step in steps if isinstance(step, Constant)])

        def value(frame: Frame) -> Value:
            found_here = []
            try:
                for at, step in enumerate(steps):
                    found_here.extend(present(step(frame), at in optional))
            finally:
                frame.spend(LIST_COST)
            return found_here

        return value

    def _map(self, one: MapLiteral) -> Step:
        entries = [(self.plan(each.key), self.plan(each.value), each.is_optional) for each in one.entries]
        is_constant = all(isinstance(step, Constant) for entry in entries for step in entry[:2])

        def value(frame: Frame) -> Value:
            found_here: dict[Value, Value] = {}
            try:
                for key_step, value_step, is_optional in entries:
                    key = new_key(key_step(frame), found_here)
                    for each in present(value_step(frame), is_optional):
                        found_here[key] = each
            finally:
                frame.spend(MAP_COST)
            return found_here

        if is_constant and not any(entry[2] for entry in entries):
            return folded(value, one.offset)
        return value

    def _comprehension(self, one: Comprehension) -> Step:
        over, start, condition, step, result = [
            self.plan(each) for each in (one.elements, one.start, one.condition, one.step, one.result)
        ]

        first, second, total = one.variable, one.second, one.accumulator
        hidden = {name for name in (first, second) if name is not None and name != total}

        def value(frame: Frame) -> Value:
            values = over(frame)
            outer = frame.variables
            # One scope for all rounds: what a round leaves to be computed later is computed within it.
            frame.variables = scope = {**outer, total: Later(start, outer)}
            try:
                for each, other in pairs(values, is_double=second is not None):
                    scope[first] = each
                    if second is not None:
                        scope[second] = other
                    if condition(frame) is False:
                        break
                    scope[total] = or_error(step, frame)
                # The result sees the variables that were there before the loop.
                for name in hidden:
                    scope.pop(name, None)
                    if name in outer:
                        scope[name] = outer[name]
                return result(frame)
            finally:
                frame.variables = outer

        return value


def folded(step: Step, offset: int) -> Constant:
    """The value of a step that needs no device, computed once. Raises ExpressionError where it has none."""
    try:
        return Constant(step(Frame({}, limit=2**63)))
    except EvaluationError as error:
        raise ExpressionError(f"program instantiation failed: {error}", offset) from None


def or_error(step: Step, frame: Frame) -> Value:
    """The next value of a loop; one that fails may yet be absorbed by a later step."""
    try:
        return step(frame)
    except EvaluationError as error:
        return Later(raising(error), frame.variables)


def pairs(values: Value, is_double: bool) -> list[tuple[Value, Value]]:
    """What a loop meets: elements alone, or with their index or key."""
    if is_double and type(values) is list:
        return list(enumerate(values))
    each = elements(values)
    return [(one, values[one]) if isinstance(values, dict) else (one, None) for one in each]


def present(value: Value, is_optional: bool) -> list[Value]:
    """The element, or nothing where an optional one is absent."""
    if not is_optional:
        return [value]
    if type(value) is not Optional:
        raise EvaluationError("cannot initialize optional entry from a value that is none")
    return [value.value] if value.is_there else []


def new_key(key: Value, mapping: dict[Value, Value]) -> Value:
    """The key as the map has it already, or as it is: of equal keys the last value counts."""
    if type(key) not in {bool, int, Uint, str}:
        raise EvaluationError("unsupported key type")
    return next((one for one in mapping if is_equal(one, key)), key)
