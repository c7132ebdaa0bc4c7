"""Functions that expressions may call: the types they take and give, and what they do.

A function has several overloads; which one is called is settled by types, or by the values where a type is
dynamic. The tables are in ``standard_functions``, ``text_functions``, ``list_functions`` and
``kubernetes_functions``.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpufleet.device_selectors.types import Type
from gpufleet.device_selectors.values import Value, size

TRAVERSAL_COST = 0.1
"""Of one character (cel-go, common/cost.go: StringTraversalCostFactor)."""

REGEX_COST = 0.25
"""Of one character of a regular expression (cel-go: RegexStringLengthCostFactor)."""

LIST_COST = 10
"""Of a list that is made (cel-go, common/cost.go: ListCreateBaseCost)."""

Cost = Callable[[Sequence[Value], Value], int]
"""What a call cost, by its arguments and its result."""


def one(_arguments: Sequence[Value], _result: Value) -> int:
    """What a call costs that looks at nothing of unbounded length."""
    return 1


def traversal(factor: float = TRAVERSAL_COST) -> Cost:
    """What a call costs that reads its first argument once."""
    return lambda arguments, _result: math.ceil(size(arguments[0]) * factor)


def regex(arguments: Sequence[Value], _result: Value) -> int:
    """What a match costs: an empty text is no free one."""
    return math.ceil((1 + size(arguments[0])) * TRAVERSAL_COST) * math.ceil(size(arguments[1]) * REGEX_COST)


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function."""

    function: str
    takes: tuple[Type, ...]
    gives: Type
    does: Callable[..., Value]
    cost: Cost = one
    is_method: bool = False


def function(
    name: str, takes: Iterable[Type], gives: Type, does: Callable[..., Value], cost: Cost = one
) -> Overload:
    """A function that is called by its name alone."""
    return Overload(name, tuple(takes), gives, does, cost)


def method(
    name: str, takes: Iterable[Type], gives: Type, does: Callable[..., Value], cost: Cost = one
) -> Overload:
    """A function that is called on its first argument."""
    return Overload(name, tuple(takes), gives, does, cost, is_method=True)
