"""Macros: calls that become loops or tests before types are checked. ``parsing`` opens them.

Definitions: the language definition of CEL, section "Macros"; ``cel.bind``, the macros of optional values and
those with two variables are extensions that Kubernetes has on.
"""

from collections.abc import Mapping
from typing import cast

from gpufleet.device_selectors.cel_errors import ExpressionError
from gpufleet.device_selectors.expressions import (
    AND,
    CONDITIONAL,
    NOT,
    NOT_STRICTLY_FALSE,
    OR,
    Call,
    Comprehension,
    Expression,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Name,
    Select,
)

ACCUMULATOR = "@result"
"""The name of what a loop adds up; no text can name it."""

UNUSED = "#unused"
"""The variable of a loop that runs zero times."""


def _variable(expression: Expression, macro: str) -> str:
    if isinstance(expression, Name) and not expression.name.startswith("."):
        return expression.name
    raise ExpressionError(f"argument of {macro} must be a simple name", expression.offset)


def _sum(offset: int) -> Name:
    return Name(ACCUMULATOR, offset)


def _has(_target: Expression | None, arguments: tuple[Expression, ...], offset: int) -> Expression:
    (asked,) = arguments
    if isinstance(asked, Select) and not asked.is_test:
        return Select(asked.operand, asked.field, offset, is_test=True)
    raise ExpressionError("invalid argument to has() macro", asked.offset)


def _quantified(
    target: Expression, names: tuple[str, str | None], test: Expression, offset: int, is_all: bool
) -> Expression:
    total = _sum(offset)
    going = total if is_all else Call(NOT, (total,), offset)
    return Comprehension(
        target,
        *names,
        accumulator=ACCUMULATOR,
        start=Literal(is_all, offset),
        condition=Call(NOT_STRICTLY_FALSE, (going,), offset),
        step=Call(AND if is_all else OR, (_sum(offset), test), offset),
        result=_sum(offset),
        offset=offset,
    )


def _exactly_one(
    target: Expression, names: tuple[str, str | None], test: Expression, offset: int
) -> Expression:
    one = Call("_+_", (_sum(offset), Literal(1, offset)), offset)
    return Comprehension(
        target,
        *names,
        accumulator=ACCUMULATOR,
        start=Literal(0, offset),
        condition=Literal(True, offset),
        step=Call(CONDITIONAL, (test, one, _sum(offset)), offset),
        result=Call("_==_", (_sum(offset), Literal(1, offset)), offset),
        offset=offset,
    )


def _collected(
    target: Expression,
    names: tuple[str, str | None],
    test: Expression | None,
    value: Expression,
    offset: int,
) -> Expression:
    """A list of the values, of those for which the test holds."""
    step: Expression = Call("_+_", (_sum(offset), ListLiteral((value,), frozenset(), offset)), offset)
    if test is not None:
        step = Call(CONDITIONAL, (test, step, _sum(offset)), offset)
    return Comprehension(
        target,
        *names,
        accumulator=ACCUMULATOR,
        start=ListLiteral((), frozenset(), offset),
        condition=Literal(True, offset),
        step=step,
        result=_sum(offset),
        offset=offset,
    )


def _one_variable(name: str) -> Macro:
    def opened(
        target: Expression | None, arguments: tuple[Expression, ...], offset: int
    ) -> Expression | None:
        target = cast("Expression", target)
        names = (_variable(arguments[0], name), None)
        match name:
            case "all" | "exists":
                return _quantified(target, names, arguments[1], offset, is_all=name == "all")
            case "exists_one":
                return _exactly_one(target, names, arguments[1], offset)
            case "map":
                test = arguments[1] if len(arguments) == 3 else None
                return _collected(target, names, test, arguments[-1], offset)
            case _:
                return _collected(target, names, arguments[1], Name(str(names[0]), offset), offset)

    return opened


def _two_variables(name: str) -> Macro:
    def opened(
        target: Expression | None, arguments: tuple[Expression, ...], offset: int
    ) -> Expression | None:
        target = cast("Expression", target)
        names = (_variable(arguments[0], name), _variable(arguments[1], name))
        if names[0] == names[1]:
            raise ExpressionError(f"duplicate variable name: {names[0]}", arguments[1].offset)
        test = arguments[2] if len(arguments) == 4 else None
        match name:
            case "all" | "exists":
                return _quantified(target, names, arguments[2], offset, is_all=name == "all")
            case "exists_one" | "existsOne":
                return _exactly_one(target, names, arguments[2], offset)
            case "transformList":
                return _collected(target, names, test, arguments[-1], offset)
            case _:
                return _inserted(target, names, test, arguments[-1], offset, name)

    return opened


def _inserted(
    target: Expression,
    names: tuple[str, str],
    test: Expression | None,
    value: Expression,
    offset: int,
    name: str,
) -> Expression:
    """A map of keys (or of entries) and values."""
    pair = (value,) if name == "transformMapEntry" else (Name(names[0], offset), value)
    step: Expression = Call("cel.@mapInsert", (_sum(offset), *pair), offset)
    if test is not None:
        step = Call(CONDITIONAL, (test, step, _sum(offset)), offset)
    return Comprehension(
        target,
        *names,
        accumulator=ACCUMULATOR,
        start=MapLiteral((), offset),
        condition=Literal(True, offset),
        step=step,
        result=_sum(offset),
        offset=offset,
    )


def _bound(name: str, value: Expression, result: Expression, offset: int) -> Expression:
    # The language has no local names: the accumulator of a loop over nothing serves as one.
    return Comprehension(
        ListLiteral((), frozenset(), offset),
        UNUSED,
        None,
        accumulator=name,
        start=value,
        condition=Literal(False, offset),
        step=Name(name, offset),
        result=result,
        offset=offset,
    )


def _bind(target: Expression | None, arguments: tuple[Expression, ...], offset: int) -> Expression | None:
    if not (isinstance(target, Name) and target.name == "cel"):
        return None
    return _bound(_variable(arguments[0], "cel.bind"), arguments[1], arguments[2], offset)


def _optional_map(is_flat: bool) -> Macro:
    def opened(
        target: Expression | None, arguments: tuple[Expression, ...], offset: int
    ) -> Expression | None:
        target = cast("Expression", target)
        name = _variable(arguments[0], "optMap")
        value = Call("value", (), offset, target)
        inner = _bound(name, value, arguments[1], offset)
        some = inner if is_flat else Call("of", (inner,), offset, Name("optional", offset))
        none = Call("none", (), offset, Name("optional", offset))
        return Call(CONDITIONAL, (Call("hasValue", (), offset, target), some, none), offset)

    return opened


def _sort_by(target: Expression | None, arguments: tuple[Expression, ...], offset: int) -> Expression | None:
    target = cast("Expression", target)
    listed = Name(_SORTED, offset)
    names = (_variable(arguments[0], "sortBy"), None)
    keys = _collected(Name(_SORTED, offset), names, None, arguments[1], offset)
    return _bound(_SORTED, target, Call("@sortByAssociatedKeys", (keys,), offset, listed), offset)


_SORTED = "@__sortBy_input__"
"""The list that ``sortBy`` sorts, which is computed once."""

_ONE = ("all", "exists", "exists_one", "filter", "map")
_TWO = ("all", "exists", "exists_one", "existsOne", "transformList", "transformMap", "transformMapEntry")
MACROS: Mapping[tuple[str, int, bool], tuple[Macro, ...]] = {
    ("has", 1, False): (_has,),
    **{(name, 2, True): (_one_variable(name),) for name in _ONE},
    ("map", 3, True): (_one_variable("map"),),
    **{(name, 3, True): (_two_variables(name),) for name in _TWO},
    **{(name, 4, True): (_two_variables(name),) for name in _TWO if name.startswith("transform")},
    ("bind", 3, True): (_bind,),
    ("sortBy", 2, True): (_sort_by,),
    ("optMap", 2, True): (_optional_map(is_flat=False),),
    ("optFlatMap", 2, True): (_optional_map(is_flat=True),),
}
"""By name, number of arguments, and whether there is a target."""
