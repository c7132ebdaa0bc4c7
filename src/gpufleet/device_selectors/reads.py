"""Which attributes and capacities of a device a selector reads, and which values it needs, by the text alone.

Two devices that agree in what it reads are one to the selector, so it need not be asked of both. A device
that lacks a value that it needs is never chosen by it, so it need not be asked at all.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gpufleet.device_selectors.expressions import (
    AND,
    INDEX,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    Call,
    Comprehension,
    Expression,
    ListLiteral,
    Literal,
    MapLiteral,
    Name,
    Select,
)

DEVICE = "device"
NAMED_BY_DOMAIN = ("attributes", "capacity")
INDEXING = (INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT)
EQUALS = "_==_"
OR_VALUE = "orValue"


class NeededValue(NamedTuple):
    """The text that an attribute has on every device that a selector chooses."""

    domain: str
    name: str
    value: str


def values_needed(expression: Expression) -> tuple[NeededValue, ...]:
    """The comparisons with a constant text that are joined by ``&&`` alone; empty where there are none.

    Where one of them is false the selector is false or fails, whatever the others say.
    """
    found: list[NeededValue] = []
    left = [expression]
    while left:
        one = left.pop()
        if isinstance(one, Call) and one.function == AND:
            left += one.arguments
        elif isinstance(one, Call) and one.function == EQUALS:
            first, second = one.arguments
            needed = _needed(first, second) or _needed(second, first)
            found += () if needed is None else (needed,)
    return tuple(found)


def _needed(attribute: Expression, constant: Expression) -> NeededValue | None:
    value = _text(constant)
    if isinstance(attribute, Call) and attribute.function == OR_VALUE and attribute.target is not None:
        (default,) = attribute.arguments
        # A device without the attribute may be meant where the default is the value.
        if _text(default) in {None, value}:
            return None
        attribute = attribute.target
    inside, name = _step(attribute)
    if value is None or name is None or inside is None or not _is_domain(inside):
        return None
    of_kind, domain = _step(inside)
    if domain is None or not isinstance(of_kind, Select) or of_kind.field != "attributes":
        return None
    return NeededValue(domain, name, value)


def names_read(expression: Expression) -> frozenset[str] | None:
    """The names without their domains; None where it may read any, as where it goes through a whole map."""
    found: set[str] = set()
    left = [expression]
    while left:
        one = left.pop()
        name = _name_read(one)
        if name is not None:
            found.add(name)
        elif isinstance(one, Name):
            # A variable of a loop may hide the device; that is rare enough to be taken for the device.
            if one.name == DEVICE:
                return None
        elif not _is_plain_field(one):
            left += _parts(one)
    return frozenset(found)


def _name_read(one: Expression) -> str | None:
    """The name of an attribute or a capacity whose value, or being there, the expression is."""
    if isinstance(one, Call) and one.function == "@in":
        name, inside = one.arguments
        return _text(name) if _is_domain(inside) else None
    operand, key = _step(one)
    return key if operand is not None and _is_domain(operand) else None


def _is_domain(one: Expression) -> bool:
    """True for ``device.attributes["domain"]``, and so for capacity."""
    operand, key = _step(one)
    return (
        key is not None
        and isinstance(operand, Select)
        and operand.field in NAMED_BY_DOMAIN
        and isinstance(operand.operand, Name)
        and operand.operand.name == DEVICE
    )


def _step(one: Expression) -> tuple[Expression | None, str | None]:
    """An operand and the constant name of its part."""
    if isinstance(one, Select):
        return one.operand, one.field
    if isinstance(one, Call) and one.function in INDEXING and len(one.arguments) == 2:
        return one.arguments[0], _text(one.arguments[1])
    return None, None


def _text(one: Expression) -> str | None:
    return one.value if isinstance(one, Literal) and isinstance(one.value, str) else None


def _is_plain_field(one: Expression) -> bool:
    """True for ``device.driver`` and other fields that are no maps."""
    if not (isinstance(one, Select) and isinstance(one.operand, Name) and one.operand.name == DEVICE):
        return False
    return one.field not in NAMED_BY_DOMAIN


def _parts(one: Expression) -> Iterator[Expression]:
    match one:
        case Select():
            yield one.operand
        case Call():
            yield from one.arguments
            if one.target is not None:
                yield one.target
        case ListLiteral():
            yield from one.elements
        case MapLiteral():
            for entry in one.entries:
                yield from (entry.key, entry.value)
        case Comprehension():
            yield from (one.elements, one.start, one.condition, one.step, one.result)
        case _:
            pass
