"""Lists inside one cell of a trace: labels, taints and tolerations, written as kubectl writes them.

Parts are separated by semicolons. Whether a label or taint is a possible one is the model's to
say; here it gets the column's name. ``trace_cells`` reads the cells that hold one value.
"""

from gpufleet.model.label_syntax import check_label_key, check_label_value
from gpufleet.model.model_errors import InputError
from gpufleet.model.taint import EFFECTS, EQUAL, EXISTS, Taint, Toleration

LABEL = "key=value"
TAINT = f"key=value:Effect or key:Effect, Effect one of {', '.join(EFFECTS)}"
TOLERATION = "key=value:Effect, key:Effect, key=value, key, *:Effect or *"


def parts(cell: str, column: str, separator: str = ";") -> list[str]:
    """The parts of a list in one cell; no part may be empty."""
    if not cell:
        return []
    found = cell.split(separator)
    for part in found:
        if not part or not part.isprintable() or part != part.strip():
            raise InputError(
                "an empty part, a space or an invisible character in a list",
                field=column,
                value=cell,
                expected=f"parts separated by {separator} and nothing else",
            )
    return found


def label_pairs(cell: str, column: str) -> dict[str, str]:
    """Labels written as ``key=value;key=value``."""
    pairs: dict[str, str] = {}
    for part in parts(cell, column):
        key, equals, value = part.partition("=")
        if not equals:
            raise _not_one(part, column, LABEL)
        check_label_key(key, column)
        check_label_value(value, column)
        if key in pairs:
            raise InputError("a key twice", field=column, value=key, expected="each key once")
        pairs[key] = value
    return pairs


def taints(cell: str, column: str) -> tuple[Taint, ...]:
    """Taints written as ``key=value:Effect;key:Effect``."""
    found = []
    for part in parts(cell, column):
        key, value, effect = _words(part)
        try:
            found.append(Taint(key, value or "", effect or ""))
        except InputError as error:
            raise _not_one(part, column, TAINT) from error
    return tuple(found)


def tolerations(cell: str, column: str) -> tuple[Toleration, ...]:
    """Tolerations, written like taints; what is left out means any, and ``*`` means any key."""
    found = []
    for part in parts(cell, column):
        key, value, effect = _words(part)
        if not key or effect == "":
            raise _not_one(part, column, TOLERATION)
        operator = EXISTS if value is None else EQUAL
        try:
            toleration = Toleration("" if key == "*" else key, operator, value or "", effect or "")
        except InputError as error:
            raise _not_one(part, column, TOLERATION) from error
        found.append(toleration)
    return tuple(found)


def _words(part: str) -> tuple[str, str | None, str | None]:
    """Key, value and effect; None for what is not written at all."""
    words, colon, effect = part.partition(":")
    key, equals, value = words.partition("=")
    return key, value if equals else None, effect if colon else None


def _not_one(part: str, column: str, expected: str) -> InputError:
    return InputError("not to be understood", field=column, value=part, expected=expected)
