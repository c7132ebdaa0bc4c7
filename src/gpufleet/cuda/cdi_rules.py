"""What nvidia-container-toolkit does with a NVIDIA_REQUIRE_ variable in its modes csv and cdi.

As in its internal/requirements (csv since 1.10; cdi since 2026, before that it checks nothing there). The
whole variable is read first: one condition that is wrong stops the container, wherever it stands. What a
condition is about is looked up letter for letter, and conditions about anything unknown are left out.
Versions are semantic versions, so ``470.057`` and ``12.4.1.0`` are wrong.
"""

import re

from gpufleet.cuda.outcome import EITHER, INVALID, REFUSES, STARTS, Facts, Outcomes

VERSIONS = ("cuda", "driver", "arch")
BRAND = "brand"
# Longer ones first: ``<=`` begins with ``<``.
_OPERATORS = ("!=", "<=", ">=", "=", "<", ">")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_SUFFIXES = r"(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
_VERSION = re.compile(rf"v?({_NUMBER})(?:\.({_NUMBER})(?:\.({_NUMBER}){_SUFFIXES})?)?")


def cdi_outcomes(expression: str, facts: Facts) -> Outcomes:
    """How the expression can come out."""
    alternatives: list[Outcomes] = []
    for alternative in expression.split(" "):
        conditions: list[Outcomes] = []
        for condition in alternative.split(","):
            outcomes = _outcomes_of(condition, facts)
            if outcomes is None:
                continue
            if INVALID in outcomes:
                return frozenset((INVALID,))
            conditions.append(outcomes)
        if conditions:
            alternatives.append(_all_of(conditions))
    return _any_of(alternatives) if alternatives else frozenset((STARTS,))


def _all_of(conditions: list[Outcomes]) -> Outcomes:
    found = frozenset().union(*(one & {REFUSES} for one in conditions))
    return found | {STARTS} if all(STARTS in one for one in conditions) else frozenset((REFUSES,))


def _any_of(alternatives: list[Outcomes]) -> Outcomes:
    if any(REFUSES not in one for one in alternatives):
        return frozenset((STARTS,))
    return frozenset((REFUSES,)).union(*alternatives)


def _outcomes_of(condition: str, facts: Facts) -> Outcomes | None:
    """How one condition can come out; None where it is left out."""
    if not condition.strip():
        return None
    start = next((place for place, letter in enumerate(condition) if letter in "<>=!"), None)
    if start is None:
        return frozenset((INVALID,))
    about, rest = condition[:start], condition[start:]
    if about not in (*VERSIONS, BRAND):
        return None
    operator = next((one for one in _OPERATORS if rest.startswith(one)), "")
    value = rest.removeprefix(operator)
    if about in VERSIONS:
        return _version(facts.get(about), operator, value)
    known = facts.get(about)
    if not operator:
        return frozenset((REFUSES,))
    return EITHER if known is None else _compared(operator, (known > value) - (known < value))


def _version(known: str | None, operator: str, value: str) -> Outcomes:
    wanted = _VERSION.fullmatch(value)
    if wanted is None:
        return frozenset((INVALID,))
    if not operator:
        return frozenset((REFUSES,))
    if known is None or wanted[4] is not None:
        return EITHER
    right = [int(part or 0) for part in wanted.groups()[:3]]
    left = [int(part) for part in known.split(".")]
    left += [0] * (len(right) - len(left))
    return _compared(operator, (left > right) - (left < right))


def _compared(operator: str, order: int) -> Outcomes:
    """Whether what was found stands so to what is wanted; ``order`` is below, at or above zero."""
    match operator:
        case "=":
            holds = order == 0
        case "!=":
            holds = order != 0
        case "<":
            holds = order < 0
        case "<=":
            holds = order <= 0
        case ">":
            holds = order > 0
        case _:
            holds = order >= 0
    return frozenset((STARTS if holds else REFUSES,))
