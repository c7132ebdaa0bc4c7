"""Functions of lists, sets and optional values.

Definitions and costs: cel-go, ext/lists.go, ext/sets.go and cel/library.go; Kubernetes,
apiserver/pkg/cel/library/lists.go.
"""

import functools
from collections.abc import Callable, Sequence

from gpufleet.device_selectors.cel_errors import EvaluationError
from gpufleet.device_selectors.functions import LIST_COST, TRAVERSAL_COST, Cost, Overload, function, method
from gpufleet.device_selectors.standard_functions import int_in_range
from gpufleet.device_selectors.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    Type,
    list_of,
    map_of,
    optional_of,
)
from gpufleet.device_selectors.values import (
    NONE,
    Duration,
    Optional,
    Uint,
    Value,
    found,
    is_equal,
    size,
    type_name,
)

COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
SUMMABLE: tuple[tuple[Type, Value], ...] = (
    (INT, 0),
    (UINT, Uint(0)),
    (DOUBLE, 0.0),
    (DURATION, Duration(0)),
)
"""Types that can be added up, with their zero."""

RANGE_MAX = 1_000_000
"""No list needs more elements than a selector may cost."""


def _traversal(arguments: Sequence[Value], _result: Value) -> int:
    """What reading a list or a text once costs."""
    return _read(arguments[0])


def _read(value: Value) -> int:
    if type(value) in {str, bytes}:
        return int(len(value) * TRAVERSAL_COST)
    if type(value) is list:
        return sum(map(_read, value))
    if isinstance(value, dict):
        return sum(_read(key) + _read(one) for key, one in value.items())
    return 1


def _kinds_alike(values: list[Value]) -> None:
    for one in values:
        if type(one) is not type(values[0]):
            raise EvaluationError("no such overload")


def _is_sorted(values: list[Value]) -> bool:
    _kinds_alike(values)
    return all(not values[at] > values[at + 1] for at in range(len(values) - 1))


def _chosen(name: str, choose: Callable[[list[Value]], Value]) -> Callable[[list[Value]], Value]:
    def does(values: list[Value]) -> Value:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        _kinds_alike(values)
        return choose(values)

    return does


def _sum(zero: Value, values: list[Value]) -> Value:
    if not values:
        return zero
    _kinds_alike(values)
    total = sum(values[1:], values[0])
    return total if type(zero) is float else type(zero)(int_in_range(total))


def _place(values: list[Value], wanted: Value) -> int:
    return next((at for at, one in enumerate(values) if is_equal(one, wanted)), -1)


def _last_place(values: list[Value], wanted: Value) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if is_equal(values[at], wanted)), -1)


def _includes(value: Value, wanted: Value) -> bool:
    if type(value) is list:
        return any(is_equal(one, wanted) for one in value)
    return is_equal(value, wanted)


def _slice(values: list[Value], begin: int, end: int) -> list[Value]:
    if begin < 0 or end < 0:
        raise EvaluationError(f"cannot slice({begin}, {end}), negative indexes not supported")
    if begin > end:
        raise EvaluationError(
            f"cannot slice({begin}, {end}), start index must be less than or equal to end index"
        )
    if len(values) < end:
        raise EvaluationError(f"cannot slice({begin}, {end}), list is length {len(values)}")
    return values[begin:end]


def _flat(values: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Value] = []
    for one in values:
        if type(one) is list and depth:
            flat.extend(_flat(one, depth - 1) if depth > 1 else one)
        else:
            flat.append(one)
    return flat


def _distinct(values: list[Value]) -> list[Value]:
    kept: list[Value] = []
    for one in values:
        if not any(is_equal(one, other) for other in kept):
            kept.append(one)
    return kept


def _sorted(values: list[Value]) -> list[Value]:
    _kinds_alike(values)
    return sorted(values)


def _range(count: int) -> list[int]:
    if count > RANGE_MAX:
        raise EvaluationError(f"lists.range({count}): at most {RANGE_MAX}")
    return list(range(max(count, 0)))


def _contains_all(values: list[Value], wanted: list[Value]) -> bool:
    return all(any(is_equal(one, other) for other in values) for one in wanted)


def _allocated(count: float) -> int:
    """What a call costs that makes a list: the call, the list, and its elements."""
    return int(count) + 1 + LIST_COST


def _result_cost(_arguments: Sequence[Value], result: Value) -> int:
    return _allocated(size(result))


def _flat_cost(arguments: Sequence[Value], _result: Value) -> int:
    depth = arguments[1] if len(arguments) > 1 and type(arguments[1]) is int else 1
    return _allocated(size(arguments[0]) * (depth if depth >= 0 else 1))


def _self_compared_cost(at: int) -> Cost:
    def cost(arguments: Sequence[Value], _result: Value) -> int:
        values = arguments[at]
        if type(values) is not list:
            return 1
        factor = 2 + (TRAVERSAL_COST if values and type(values[0]) in {str, bytes} else 0)
        return _allocated(len(values) ** 2 * factor)

    return cost


def _set_cost(factor: int) -> Cost:
    return lambda arguments, _result: 1 + size(arguments[0]) * size(arguments[1]) * factor


def _inserted(mapping: dict[Value, Value], key: Value, value: Value) -> dict[Value, Value]:
    if found(mapping, key).is_there:
        raise EvaluationError(f"insert failed: key {key} already exists")
    return {**mapping, key: value}


def _merged(mapping: dict[Value, Value], other: dict[Value, Value]) -> dict[Value, Value]:
    for key, value in other.items():
        mapping = _inserted(mapping, key, value)
    return mapping


def is_zero(value: Value) -> bool:
    """The value is that of its type that says nothing: 0, "", an empty list."""
    if type(value) is Optional:
        return not value.is_there
    return value is None or (type_name(value) not in {"net.IP", "net.CIDR"} and not value)


def _value(optional: Optional) -> Value:
    if not optional.is_there:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _sorted_by_keys(values: list[Value], keys: list[Value]) -> list[Value]:
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list"
        )
    _kinds_alike(keys)
    return [values[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]


LIST_FUNCTIONS: tuple[Overload, ...] = (
    *(method("isSorted", (list_of(kind),), BOOL, _is_sorted, _traversal) for kind in COMPARABLE),
    *(
        method("sum", (list_of(kind),), kind, functools.partial(_sum, zero), _traversal)
        for kind, zero in SUMMABLE
    ),
    *(method("min", (list_of(kind),), kind, _chosen("min", min), _traversal) for kind in COMPARABLE),
    *(method("max", (list_of(kind),), kind, _chosen("max", max), _traversal) for kind in COMPARABLE),
    method("indexOf", (list_of(A), A), INT, _place, _traversal),
    method("lastIndexOf", (list_of(A), A), INT, _last_place, _traversal),
    method("includes", (DYN, DYN), BOOL, _includes, _traversal),
    method("slice", (list_of(A), INT, INT), list_of(A), _slice, _result_cost),
    method("flatten", (list_of(list_of(A)),), list_of(A), _flat, _flat_cost),
    method("flatten", (list_of(DYN), INT), list_of(DYN), _flat, _flat_cost),
    *(
        method("sort", (list_of(kind),), list_of(kind), _sorted, _self_compared_cost(0))
        for kind in COMPARABLE
    ),
    *(
        method(
            "@sortByAssociatedKeys",
            (list_of(A), list_of(kind)),
            list_of(A),
            _sorted_by_keys,
            _self_compared_cost(1),
        )
        for kind in COMPARABLE
    ),
    function("lists.range", (INT,), list_of(INT), _range, _result_cost),
    method("reverse", (list_of(A),), list_of(A), lambda a: a[::-1], _result_cost),
    method("distinct", (list_of(A),), list_of(A), _distinct, _self_compared_cost(0)),
    function("sets.contains", (list_of(A), list_of(A)), BOOL, _contains_all, _set_cost(1)),
    function(
        "sets.equivalent",
        (list_of(A), list_of(A)),
        BOOL,
        lambda a, b: _contains_all(a, b) and _contains_all(b, a),
        _set_cost(2),
    ),
    function(
        "sets.intersects",
        (list_of(A), list_of(A)),
        BOOL,
        lambda a, b: any(is_equal(one, other) for one in a for other in b),
        _set_cost(1),
    ),
    function("cel.@mapInsert", (map_of(A, B), A, B), map_of(A, B), _inserted),
    function("cel.@mapInsert", (map_of(A, B), map_of(A, B)), map_of(A, B), _merged),
    function("optional.of", (A,), optional_of(A), lambda a: Optional(a, is_there=True)),
    function(
        "optional.ofNonZeroValue",
        (A,),
        optional_of(A),
        lambda a: NONE if is_zero(a) else Optional(a, is_there=True),
    ),
    function("optional.none", (), optional_of(A), lambda: NONE),
    method("value", (optional_of(A),), A, _value),
    method("hasValue", (optional_of(A),), BOOL, lambda a: a.is_there),
    method("first", (list_of(A),), optional_of(A), lambda a: Optional(a[0], is_there=True) if a else NONE),
    method("last", (list_of(A),), optional_of(A), lambda a: Optional(a[-1], is_there=True) if a else NONE),
    function(
        "optional.unwrap",
        (list_of(optional_of(A)),),
        list_of(A),
        lambda a: [one.value for one in a if one.is_there],
    ),
    method(
        "unwrapOpt",
        (list_of(optional_of(A)),),
        list_of(A),
        lambda a: [one.value for one in a if one.is_there],
    ),
)
