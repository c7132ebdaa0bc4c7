"""Operators and conversions of the language itself. ``functions`` says what an entry means.

Definitions: the language definition of CEL, "List of Standard Definitions"; costs: cel-go,
interpreter/runtimecost.go.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import cast

from gpufleet.device_selectors.cel_errors import EvaluationError
from gpufleet.device_selectors.expressions import INDEX, NEGATE, NOT
from gpufleet.device_selectors.functions import TRAVERSAL_COST, Overload, function, method, traversal
from gpufleet.device_selectors.times import (
    duration_of_text,
    duration_text,
    parts_of,
    timestamp_of_text,
    timestamp_text,
)
from gpufleet.device_selectors.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    B,
    Type,
    list_of,
    map_of,
)
from gpufleet.device_selectors.values import (
    INT_MAXIMUM,
    INT_MINIMUM,
    UINT_MAXIMUM,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    found,
    is_equal,
    size,
    type_name,
)

_DOUBLE_TO_INT_LIMIT = 2.0**63
"""The first double that CEL's int cannot hold."""


def int_in_range(number: int) -> int:
    """The number, if CEL's int can hold it."""
    if not INT_MINIMUM <= number <= INT_MAXIMUM:
        raise EvaluationError("integer overflow")
    return number


def _uint_in_range(number: int) -> Uint:
    if not 0 <= number <= UINT_MAXIMUM:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _nanoseconds(kind: type, number: int) -> Value:
    if not INT_MINIMUM <= number <= INT_MAXIMUM and kind is Duration:
        raise EvaluationError("integer overflow")
    return kind(number)


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    # CEL rounds towards 0, and Python's own division down.
    whole = abs(left) // abs(right)
    return int_in_range(whole if (left < 0) == (right < 0) else -whole)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    # The sign is that of the left number, as in Go; ``fmod`` is exact below 2**53 only.
    return int(math.fmod(left, right)) if abs(left) < 2**53 else left - right * _divided(left, right)


def _divided_double(left: float, right: float) -> float:
    # As IEEE 754 says, where Python raises an error.
    if right == 0:
        return (
            math.nan
            if left == 0 or math.isnan(left)
            else math.copysign(math.inf, left) * math.copysign(1, right)
        )
    return left / right


def _uint_divided(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("division by zero")
    return Uint(int(left) // int(right))


def _uint_remainder(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return Uint(int(left) % int(right))


def joined_cost(arguments: Sequence[Value], _result: Value) -> int:
    """Of a text made of two."""
    return math.ceil((size(arguments[0]) + size(arguments[1])) * TRAVERSAL_COST)


def compared_cost(arguments: Sequence[Value], _result: Value) -> int:
    """Of a comparison: as long as the shorter one."""
    return math.ceil(min(size(arguments[0]), size(arguments[1])) * TRAVERSAL_COST)


_ARITHMETIC: tuple[Overload, ...] = (
    function("_+_", (INT, INT), INT, lambda a, b: int_in_range(a + b)),
    function("_+_", (UINT, UINT), UINT, lambda a, b: _uint_in_range(int(a) + int(b))),
    function("_+_", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a + b),
    function("_+_", (STRING, STRING), STRING, lambda a, b: a + b, joined_cost),
    function("_+_", (BYTES, BYTES), BYTES, lambda a, b: a + b, joined_cost),
    function("_+_", (list_of(A), list_of(A)), list_of(A), lambda a, b: a + b),
    function("_+_", (DURATION, DURATION), DURATION, lambda a, b: _nanoseconds(Duration, int(a) + int(b))),
    function("_+_", (DURATION, TIMESTAMP), TIMESTAMP, lambda a, b: Timestamp(int(a) + int(b))),
    function("_+_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: Timestamp(int(a) + int(b))),
    function("_-_", (INT, INT), INT, lambda a, b: int_in_range(a - b)),
    function("_-_", (UINT, UINT), UINT, lambda a, b: _uint_in_range(int(a) - int(b))),
    function("_-_", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a - b),
    function("_-_", (DURATION, DURATION), DURATION, lambda a, b: _nanoseconds(Duration, int(a) - int(b))),
    function("_-_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: Timestamp(int(a) - int(b))),
    function("_-_", (TIMESTAMP, TIMESTAMP), DURATION, lambda a, b: _nanoseconds(Duration, int(a) - int(b))),
    function("_*_", (INT, INT), INT, lambda a, b: int_in_range(a * b)),
    function("_*_", (UINT, UINT), UINT, lambda a, b: _uint_in_range(int(a) * int(b))),
    function("_*_", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a * b),
    function("_/_", (INT, INT), INT, _divided),
    function("_/_", (UINT, UINT), UINT, _uint_divided),
    function("_/_", (DOUBLE, DOUBLE), DOUBLE, _divided_double),
    function("_%_", (INT, INT), INT, _remainder),
    function("_%_", (UINT, UINT), UINT, _uint_remainder),
    function(NEGATE, (INT,), INT, lambda a: int_in_range(-a)),
    function(NEGATE, (DOUBLE,), DOUBLE, lambda a: -a),
    function(NOT, (BOOL,), BOOL, lambda a: not a),
)

_NUMBERS = (INT, UINT, DOUBLE)
_ORDERED: tuple[tuple[Type, Type], ...] = (
    *((one, other) for one in _NUMBERS for other in _NUMBERS),
    *((one, one) for one in (BOOL, STRING, BYTES, TIMESTAMP, DURATION)),
)


def _comparisons(name: str, holds: Callable[[Value, Value], bool]) -> list[Overload]:
    return [
        function(name, pair, BOOL, holds, compared_cost if pair[0] in {STRING, BYTES} else lambda *_: 1)
        for pair in _ORDERED
    ]


def _equality_cost(arguments: Sequence[Value], result: Value) -> int:
    # Kubernetes' own types compare at the price of a number.
    if type_name(arguments[0]).startswith(("kubernetes.", "net.")):
        return 1
    return compared_cost(arguments, result)


def _at(elements: list[Value], index: Value) -> Value:
    if type(index) is float and not index.is_integer():
        raise EvaluationError(f"unsupported index value {index}")
    if not 0 <= index < len(elements):
        raise EvaluationError(f"index out of bounds: {index}")
    return elements[int(index)]


def _of_key(mapping: dict[Value, Value], key: Value) -> Value:
    there = found(mapping, key)
    if not there.is_there:
        raise EvaluationError(f"no such key: {key}")
    return there.value


def is_key(key: Value, mapping: dict[Value, Value]) -> bool:
    """The key itself is there; the empty map of an unknown domain does not count."""
    return found(dict(mapping), key).is_there


_COLLECTIONS: tuple[Overload, ...] = (
    function("_==_", (A, A), BOOL, is_equal, _equality_cost),
    function("_!=_", (A, A), BOOL, lambda a, b: not is_equal(a, b), compared_cost),
    function(INDEX, (list_of(A), INT), A, _at),
    function(INDEX, (map_of(A, B), A), B, _of_key),
    function(
        "@in",
        (A, list_of(A)),
        BOOL,
        lambda a, b: any(is_equal(a, one) for one in b),
        lambda arguments, _: size(arguments[1]),
    ),
    function("@in", (A, map_of(A, B)), BOOL, is_key),
    *(function("size", (kind,), INT, len) for kind in (STRING, BYTES, list_of(A), map_of(A, B))),
    *(method("size", (kind,), INT, len) for kind in (STRING, BYTES, list_of(A), map_of(A, B))),
)


def _int_of_double(number: float) -> int:
    if math.isnan(number) or not -_DOUBLE_TO_INT_LIMIT < number < _DOUBLE_TO_INT_LIMIT:
        raise EvaluationError("integer overflow")
    return int(number)


def _int_of_text(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise EvaluationError(f"cannot convert {text!r} to int")
    return int_in_range(int(text))


def _uint_of_text(text: str) -> Uint:
    if not re.fullmatch(r"[0-9]+", text):
        raise EvaluationError(f"cannot convert {text!r} to uint")
    return _uint_in_range(int(text))


def _uint_of_double(number: float) -> Uint:
    if math.isnan(number) or not 0 <= number < 2 * _DOUBLE_TO_INT_LIMIT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(number))


def _double_of_text(text: str) -> float:
    try:
        # Python reads underscores and space around a number, which CEL does not.
        return float(text) if "_" not in text and text == text.strip() else float("no")
    except ValueError:
        raise EvaluationError(f"cannot convert {text!r} to double") from None


_TRUE = frozenset(("1", "t", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "false", "FALSE", "False"))


def _bool_of_text(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise EvaluationError(f"cannot convert {text!r} to bool")


def double_text(number: float) -> str:
    """A double as Go writes it: the shortest text that reads as the same number."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    digits, _, exponent = f"{number!r}".partition("e")
    if not exponent:
        text = repr(number)
        if abs(number) >= 1e21 or (number and abs(number) < 1e-4):
            return _exponent_text(number)
        return text.removesuffix(".0")
    if 1e-4 <= abs(number) < 1e21:
        return f"{number:.0f}"
    return f"{digits.removesuffix('.0')}e{int(exponent):+03d}"


def _exponent_text(number: float) -> str:
    digits, _, exponent = f"{number:e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(exponent):+03d}"


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _same(value: Value) -> Value:
    return value


_CONVERSIONS: tuple[Overload, ...] = (
    function("type", (A,), TYPE, lambda a: TypeValue(type_name(a))),
    function("dyn", (A,), DYN, _same),
    function("bool", (BOOL,), BOOL, _same),
    function("bool", (STRING,), BOOL, _bool_of_text),
    function("bytes", (BYTES,), BYTES, _same),
    function("bytes", (STRING,), BYTES, lambda a: a.encode(), traversal()),
    function("double", (DOUBLE,), DOUBLE, _same),
    function("double", (INT,), DOUBLE, float),
    function("double", (UINT,), DOUBLE, float),
    function("double", (STRING,), DOUBLE, _double_of_text),
    function("int", (INT,), INT, _same),
    function("int", (UINT,), INT, lambda a: int_in_range(int(a))),
    function("int", (DOUBLE,), INT, _int_of_double),
    function("int", (STRING,), INT, _int_of_text),
    function("int", (DURATION,), INT, int),
    function("int", (TIMESTAMP,), INT, lambda a: int(a) // 10**9),
    function("uint", (UINT,), UINT, _same),
    function("uint", (INT,), UINT, lambda a: _uint_in_range(int(a))),
    function("uint", (DOUBLE,), UINT, _uint_of_double),
    function("uint", (STRING,), UINT, _uint_of_text),
    function("string", (STRING,), STRING, _same),
    function("string", (BOOL,), STRING, lambda a: "true" if a else "false"),
    function("string", (INT,), STRING, str),
    function("string", (UINT,), STRING, lambda a: str(int(a))),
    function("string", (DOUBLE,), STRING, double_text),
    function("string", (BYTES,), STRING, _text_of_bytes, traversal()),
    function("string", (DURATION,), STRING, duration_text),
    function("string", (TIMESTAMP,), STRING, timestamp_text),
    function("duration", (DURATION,), DURATION, _same),
    function("duration", (STRING,), DURATION, duration_of_text),
    function("timestamp", (TIMESTAMP,), TIMESTAMP, _same),
    function("timestamp", (INT,), TIMESTAMP, lambda a: Timestamp(a * 10**9)),
    function("timestamp", (STRING,), TIMESTAMP, timestamp_of_text),
)


def _of_times() -> list[Overload]:
    found_here = []
    for name, part in parts_of.items():
        kinds = (TIMESTAMP, DURATION) if part.duration is not None else (TIMESTAMP,)
        for kind in kinds:
            does = part.timestamp if kind is TIMESTAMP else cast("Callable[[Duration], int]", part.duration)
            found_here.append(method(name, (kind,), INT, does))
        found_here.append(method(name, (TIMESTAMP, STRING), INT, part.in_zone))
    return found_here


STANDARD_FUNCTIONS: tuple[Overload, ...] = (
    *_ARITHMETIC,
    *_comparisons("_<_", lambda a, b: bool(a < b)),
    *_comparisons("_<=_", lambda a, b: bool(a <= b)),
    *_comparisons("_>_", lambda a, b: bool(a > b)),
    *_comparisons("_>=_", lambda a, b: bool(a >= b)),
    *_COLLECTIONS,
    *_CONVERSIONS,
    *_of_times(),
)
