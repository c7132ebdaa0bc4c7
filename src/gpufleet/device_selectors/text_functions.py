"""Functions of texts: those of the language, its extension "strings", and regular expressions.

Regular expressions are RE2's: a pattern of a user can take no more than linear time. Definitions: cel-go,
ext/strings.go (version 2); Kubernetes, apiserver/pkg/cel/library/regex.go.
"""

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

from gpufleet.device_selectors.cel_errors import EvaluationError
from gpufleet.device_selectors.functions import TRAVERSAL_COST, Overload, function, method, regex, traversal
from gpufleet.device_selectors.standard_functions import double_text
from gpufleet.device_selectors.times import duration_text, timestamp_text
from gpufleet.device_selectors.types import BOOL, DYN, INT, STRING, list_of
from gpufleet.device_selectors.values import Duration, Timestamp, Uint, Value, size, type_name

_WIDE_SPACE = "".join(
    map(
        chr,
        (
            *range(0x9, 0xE),
            0x20,
            0x85,
            0xA0,
            0x1680,
            *range(0x2000, 0x200B),
            0x2028,
            0x2029,
            0x202F,
            0x205F,
            0x3000,
        ),
    )
)
"""What ``trim`` takes away: white space as Unicode has it."""

PATTERNS_KEPT_MAX = 256
"""Selectors name few patterns, and each is read once."""


@functools.lru_cache(PATTERNS_KEPT_MAX)
def compiled(pattern: str) -> Any:
    """A regular expression of RE2. Raises EvaluationError."""
    import re2

    options = re2.Options()
    # RE2 would write each faulty pattern of a user to standard error as well.
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise EvaluationError(f"error parsing regexp: {error}: `{pattern}`") from None


def _found(text: str, pattern: str) -> str:
    match = compiled(pattern).search(text)
    return match.group(0) if match else ""


def _all_found(text: str, pattern: str, count: int = -1) -> list[str]:
    found: list[str] = []
    for match in compiled(pattern).finditer(text):
        if 0 <= count <= len(found):
            break
        found.append(match.group(0))
    return found


def _contains_cost(arguments: Sequence[Value], _result: Value) -> int:
    return math.ceil(size(arguments[0]) * TRAVERSAL_COST) * math.ceil(size(arguments[1]) * TRAVERSAL_COST)


def _argument_cost(arguments: Sequence[Value], _result: Value) -> int:
    return math.ceil(size(arguments[1]) * TRAVERSAL_COST)


def _result_cost(_arguments: Sequence[Value], result: Value) -> int:
    return math.ceil(size(result) * 2 * TRAVERSAL_COST)


def _index_cost(arguments: Sequence[Value], _result: Value) -> int:
    return int(len(arguments[0]) * TRAVERSAL_COST) if isinstance(arguments[0], str) else 1


def _in_range(index: int, length: int) -> int:
    if not 0 <= index <= length:
        raise EvaluationError(f"index out of range: {index}")
    return index


def _character(text: str, index: int) -> str:
    return text[_in_range(index, len(text)) : index + 1]


def _first_place(text: str, part: str, begin: int = 0) -> int:
    if begin < 0:
        raise EvaluationError(f"index out of range: {begin}")
    return text.find(part, begin) if part else begin


def _last_place(text: str, part: str, begin: int | None = None) -> int:
    if not part:
        return len(text) if begin is None else begin
    if begin is not None:
        _in_range(begin, len(text) - 1)
    return text.rfind(part, 0, len(text) if begin is None else begin + len(part))


def _cut(text: str, begin: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if begin > end:
        raise EvaluationError(f"invalid substring range. start: {begin}, end: {end}")
    return text[_in_range(begin, len(text)) : _in_range(end, len(text))]


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        letters = list(text)
        return (
            letters
            if count < 0 or len(letters) <= count
            else [*letters[: count - 1], "".join(letters[count - 1 :])]
        )
    return text.split(separator, count - 1 if count > 0 else -1)


def _replaced(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count) if count >= 0 else text.replace(old, new)


_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def _quoted(text: str) -> str:
    return '"' + "".join(_QUOTED.get(letter, letter) for letter in text) + '"'


_CLAUSE = re.compile(r"%(?:%|(\.\d*)?([a-zA-Z])|)")


def _formatted(text: str, arguments: list[Value]) -> str:
    """``"%s has %d".format([name, count])``."""
    left = iter(arguments)
    used = 0

    def clause(match: re.Match[str]) -> str:
        nonlocal used
        if match.group() == "%%":
            return "%"
        precision, verb = match.group(1), match.group(2)
        if verb is None:
            raise EvaluationError("unexpected end of string")
        used += 1
        try:
            value = next(left)
        except StopIteration:
            raise EvaluationError(f"index {used - 1} out of range") from None
        return _clause(value, verb, int(precision[1:] or 0) if precision else None)

    return _CLAUSE.sub(clause, text)


_DEFAULT_PRECISION = 6
"""Digits after the point where a format names none."""


def _clause(value: Value, verb: str, precision: int | None) -> str:
    kind = type(value)
    digits = _DEFAULT_PRECISION if precision is None else precision
    match verb:
        case "s":
            return text_of(value)
        case "d" if kind in {int, Uint}:
            return str(int(value))
        case "b" if kind in {int, Uint, bool}:
            return f"{int(value):b}"
        case "o" if kind in {int, Uint}:
            return f"{int(value):o}"
        case "x" | "X" if kind in {int, Uint, str, bytes}:
            raw = value.encode() if kind is str else value
            found = raw.hex() if isinstance(raw, bytes) else f"{int(raw):x}"
            return found.upper() if verb == "X" else found
        case "f" if kind in {float, int, Uint}:
            return f"{float(value):.{digits}f}" if math.isfinite(value) else double_text(value).lstrip("+")
        case "e" if kind in {float, int, Uint}:
            return f"{float(value):.{digits}e}" if math.isfinite(value) else double_text(value).lstrip("+")
    raise EvaluationError(f"error during formatting: %{verb} does not take a {type_name(value)}")


def text_of(value: Value) -> str:
    """A value as ``%s`` writes it."""
    match value:
        case None | bool():
            return "null" if value is None else str(value).lower()
        case str():
            return value
        case bytes():
            return value.decode(errors="replace")
        case float():
            return double_text(value).lstrip("+")
        case Duration():
            return duration_text(value)
        case Timestamp():
            return timestamp_text(value)
        case int():
            return str(int(value))
        case list():
            return "[" + ", ".join(text_of(one) for one in value) + "]"
        case dict():
            pairs = sorted((text_of(key), text_of(one)) for key, one in value.items())
            return "{" + ", ".join(f"{key}: {one}" for key, one in pairs) + "}"
    raise EvaluationError(
        f"error during formatting: string clause can only be used on strings, not {type_name(value)}"
    )


def _matches(text: str, pattern: str) -> bool:
    return compiled(pattern).search(text) is not None


TEXT_FUNCTIONS: tuple[Overload, ...] = (
    method("contains", (STRING, STRING), BOOL, lambda a, b: b in a, _contains_cost),
    method("startsWith", (STRING, STRING), BOOL, lambda a, b: a.startswith(b), _argument_cost),
    method("endsWith", (STRING, STRING), BOOL, lambda a, b: a.endswith(b), _argument_cost),
    method("matches", (STRING, STRING), BOOL, _matches, regex),
    function("matches", (STRING, STRING), BOOL, _matches, regex),
    method("find", (STRING, STRING), STRING, _found, regex),
    method("findAll", (STRING, STRING), list_of(STRING), _all_found, regex),
    method("findAll", (STRING, STRING, INT), list_of(STRING), _all_found, regex),
    method("charAt", (STRING, INT), STRING, _character),
    method("indexOf", (STRING, STRING), INT, _first_place, _index_cost),
    method("indexOf", (STRING, STRING, INT), INT, _first_place, _index_cost),
    method("lastIndexOf", (STRING, STRING), INT, _last_place, _index_cost),
    method("lastIndexOf", (STRING, STRING, INT), INT, _last_place, _index_cost),
    method("lowerAscii", (STRING,), STRING, lambda a: a.translate(_LOWER), traversal()),
    method("upperAscii", (STRING,), STRING, lambda a: a.translate(_UPPER), traversal()),
    method("replace", (STRING, STRING, STRING), STRING, _replaced, traversal(2 * TRAVERSAL_COST)),
    method("replace", (STRING, STRING, STRING, INT), STRING, _replaced, traversal(2 * TRAVERSAL_COST)),
    method("split", (STRING, STRING), list_of(STRING), _split, traversal(2 * TRAVERSAL_COST)),
    method("split", (STRING, STRING, INT), list_of(STRING), _split, traversal(2 * TRAVERSAL_COST)),
    method("substring", (STRING, INT), STRING, _cut, traversal()),
    method("substring", (STRING, INT, INT), STRING, _cut, traversal()),
    method("trim", (STRING,), STRING, lambda a: a.strip(_WIDE_SPACE), traversal()),
    method("join", (list_of(STRING),), STRING, "".join, _result_cost),
    method("join", (list_of(STRING), STRING), STRING, lambda a, b: b.join(a), _result_cost),
    method("format", (STRING, list_of(DYN)), STRING, _formatted, traversal()),
    function("strings.quote", (STRING,), STRING, _quoted, traversal()),
)
