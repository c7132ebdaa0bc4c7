"""What libnvidia-container does with a NVIDIA_REQUIRE_ variable: src/cli/dsl.c and configure.c, as of 1.17.

Alternatives are separated by spaces, conditions that must hold together by commas. It reads as it goes: it
stops at the first alternative that holds, and at the first condition of one that does not, so whatever
stands behind is not even read; what it does read must be right, or the container does not start. Two of its
ways are odd and kept: an alternative of commas only ends the search with what was found so far, and a lone
``!`` means ``!=``.
"""

import re

from gpufleet.cuda.outcome import EITHER, INVALID, REFUSES, STARTS, Facts, Outcomes

VERSIONS = ("cuda", "driver", "arch")
BRAND = "brand"
_SIGNS = "<>=!"
_CONDITION = re.compile(r"([^<>=!]+)([<>=!]+)([^<>=!].*)", re.DOTALL)
_OPERATORS = {"=": "=", "!": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
# Of the toolkit's unsigned integers of 64 bits.
_LARGEST = 2**64 - 1
# What it would print of a condition that does not hold, with two spaces and an end, must fit its buffer.
_LONGEST = 128


def legacy_outcomes(expression: str, facts: Facts) -> Outcomes:
    """How the expression can come out."""
    found: Outcomes = frozenset()
    before = STARTS
    for alternative in expression.split(" "):
        if not alternative:
            continue
        conditions = [one for one in alternative.split(",") if one]
        if not conditions:
            return found | {before}
        outcomes = _all_of(conditions, facts)
        found |= outcomes - {REFUSES}
        if REFUSES not in outcomes:
            return found
        before = REFUSES
    return found | {before}


def _all_of(conditions: list[str], facts: Facts) -> Outcomes:
    """Conditions of one alternative, one after the other until one does not hold."""
    found: Outcomes = frozenset()
    for condition in conditions:
        outcomes = _outcomes_of(condition, facts)
        if REFUSES in outcomes and len(condition) + 2 >= _LONGEST:
            outcomes = outcomes - {REFUSES} | {INVALID}
        found |= outcomes - {STARTS}
        if STARTS not in outcomes:
            return found
    return found | {STARTS}


def _outcomes_of(condition: str, facts: Facts) -> Outcomes:
    parts = _CONDITION.fullmatch(condition)
    operator = None if parts is None else _OPERATORS.get(parts[2])
    if parts is None or operator is None:
        return frozenset((INVALID,))
    about, value = parts[1].lower(), parts[3]
    if about in VERSIONS:
        return _version(facts.get(about), operator, value)
    if about != BRAND or operator not in {"=", "!="}:
        return frozenset((INVALID,))
    known = facts.get(about)
    if known is None:
        return EITHER
    same = known.lower() == value.lower()
    return _holds(same == (operator == "="))


def _version(known: str | None, operator: str, value: str) -> Outcomes:
    if not _is_version(value):
        return frozenset((INVALID,))
    if known is None:
        return EITHER
    left, right = _numbers(known), _numbers(value)
    match operator:
        case "=":
            return _holds(left == right)
        case "!=":
            return _holds(left != right)
        case "<":
            return _holds(left < right)
        case "<=":
            return _holds(left <= right)
        case ">":
            return _holds(left > right)
        case _:
            return _holds(left >= right)


def _is_version(text: str) -> bool:
    """Digits and dots, a digit first, and no number that its integers cannot hold."""
    if not text[:1].isdigit() or not text.isascii() or not set(text) <= set("0123456789."):
        return False
    return all(int(part) < _LARGEST for part in text.split(".") if part)


def _numbers(version: str) -> list[int]:
    """The numbers, without zeros at the end: 12 and 12.0 are the same."""
    numbers = [int(part) for part in version.split(".") if part]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def _holds(holds: bool) -> Outcomes:
    return frozenset((STARTS if holds else REFUSES,))
