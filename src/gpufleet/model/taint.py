"""Taints of nodes and the tolerations of pods, with the rules of Kubernetes.

The comparing operators Gt and Lt are those of Kubernetes 1.35 (TaintTolerationComparisonOperators):
the taint's value is compared with the toleration's, and what is not a plain integer is not
tolerated. ``engine`` asks ``untolerated`` once for each set of taints and of tolerations.
"""

import re
from collections.abc import Iterable

import msgspec

from gpufleet.model.label_syntax import check_label_key, check_label_value
from gpufleet.model.model_errors import InputError

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

EQUAL = "Equal"
EXISTS = "Exists"
GREATER = "Gt"
LESS = "Lt"
OPERATORS = (EQUAL, EXISTS, GREATER, LESS)

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
# Lt and Gt compare 64-bit integers.
_INT64 = range(-(2**63), 2**63)


class Taint(msgspec.Struct, frozen=True, cache_hash=True):
    """A taint: key, value and effect (NoSchedule, PreferNoSchedule or NoExecute)."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __post_init__(self) -> None:
        check_label_key(self.key)
        check_label_value(self.value)
        _check_choice(self.effect, EFFECTS, "effect")

    @property
    def repels(self) -> bool:
        """True if a pod that does not tolerate the taint may not be placed on the node."""
        return self.effect != PREFER_NO_SCHEDULE

    def __str__(self) -> str:
        """The taint as kubectl writes it: "key=value:effect"."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, cache_hash=True):
    """A toleration: which taints a pod puts up with.

    An empty key, which needs the operator Exists, stands for every key; an empty effect for
    every effect. How long NoExecute is put up with is not the scheduler's business.
    """

    key: str = ""
    operator: str = EQUAL
    value: str = ""
    effect: str = ""

    def __post_init__(self) -> None:
        # An unset operator means Equal; written out, equal tolerations are equal values.
        msgspec.structs.force_setattr(self, "operator", self.operator or EQUAL)
        _check_choice(self.operator, OPERATORS, "operator")
        _check_choice(self.effect, ("", *EFFECTS), "effect")
        if self.key:
            check_label_key(self.key)
        elif self.operator != EXISTS:
            problem = "a toleration without a key"
            raise InputError(problem, field="operator", value=self.operator, expected=EXISTS)
        self._check_value()

    def _check_value(self) -> None:
        if self.operator == EQUAL:
            check_label_value(self.value)
        elif self.operator == EXISTS:
            if self.value:
                problem = "Exists with a value"
                raise InputError(problem, field="value", value=self.value, expected="none")
        elif _integer(self.value) is None:
            expected = "an integer of 64 bits without plus sign or leading zeros"
            raise InputError("not comparable", field="value", value=self.value, expected=expected)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True if this toleration alone is enough for the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == EXISTS:
        return True
    if toleration.operator == EQUAL:
        return toleration.value == taint.value
    bound, value = _integer(toleration.value), _integer(taint.value)
    if bound is None or value is None:
        return False
    return value > bound if toleration.operator == GREATER else value < bound


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod off the node, None if the node may be used."""
    pods = tuple(tolerations)
    for taint in taints:
        if taint.repels and not any(tolerates(toleration, taint) for toleration in pods):
            return taint
    return None


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    integer = int(text)
    return integer if integer in _INT64 else None


def _check_choice(text: str, choices: tuple[str, ...], field: str) -> None:
    if text not in choices:
        expected = ", ".join(choice for choice in choices if choice)
        raise InputError("unknown", field=field, value=text, expected=expected)


CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""What the node controller adds to a node that was cordoned."""
