"""An expression as a tree. ``parsing`` makes it, ``checking`` and ``planning`` read it.

Nodes are compared by identity: two equal texts in one expression are two nodes with a type each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant: a value as ``values`` has it."""

    value: Any
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A variable, or the beginning of a function with a dotted name."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """``operand.field``; with ``is_test`` the question of ``has`` whether it is there."""

    operand: "Expression"
    field: str
    offset: int
    is_test: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function or an operator with its arguments; a method has a target."""

    function: str
    arguments: "tuple[Expression, ...]"
    offset: int
    target: "Expression | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral:
    """``[a, ?b]``; ``optional`` has the places of elements that may be absent."""

    elements: "tuple[Expression, ...]"
    optional: frozenset[int]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry:
    """A key and its value; an optional entry is left out where its value is absent."""

    key: "Expression"
    value: "Expression"
    is_optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral:
    """``{key: value}``."""

    entries: tuple[MapEntry, ...]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """``Type{field: value}``, of which no type is declared for devices."""

    type_name: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """A loop: what the macros (``all``, ``map``, ``cel.bind``) become.

    For each of ``elements`` while ``condition`` holds, ``step`` gives the next value of ``accumulator``,
    which begins as ``start``; ``result`` is the value. With ``second`` the loop has index (or key) and
    element.
    """

    elements: "Expression"
    variable: str
    second: str | None
    accumulator: str
    start: "Expression"
    condition: "Expression"
    step: "Expression"
    result: "Expression"
    offset: int


Expression = Literal | Name | Select | Call | ListLiteral | MapLiteral | Message | Comprehension
Macro = Callable[["Expression | None", tuple["Expression", ...], int], "Expression | None"]
"""Makes an expression of target, arguments and place; None where it is an ordinary call."""

INDEX = "_[_]"
OPTIONAL_INDEX = "_[?_]"
OPTIONAL_SELECT = "_?._"
CONDITIONAL = "_?_:_"
AND = "_&&_"
OR = "_||_"
NOT = "!_"
NEGATE = "-_"
NOT_STRICTLY_FALSE = "@not_strictly_false"
"""True unless its argument is false: an error inside ``all`` and ``exists`` does not end the loop."""
