"""Steps: what an expression becomes, and the chain of names, fields and keys, its commonest step.

A chain costs 1 and each of its qualifiers 1; a qualifier that may be absent ends it without an error. Costs:
cel-go, interpreter/runtimecost.go. ``planning`` puts steps together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gpufleet.device_selectors.cel_errors import CostExceededError, EvaluationError
from gpufleet.device_selectors.values import NONE, Optional, Uint, Value, found


@dataclass(slots=True)
class Frame:
    """One evaluation: its variables, and what it has cost so far."""

    variables: dict[str, Value]
    limit: int
    cost: int = 0

    def spend(self, cost: int) -> None:
        """Count a cost. Raises CostExceededError above the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError(f"the expression costs more than {self.limit}")


Step = Callable[[Frame], Value]


@dataclass(frozen=True, slots=True)
class Later:
    """The start of a loop, which is computed when it is first asked for."""

    start: Step
    scope: dict[str, Value]


class Constant:
    """A step whose value is known."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, _frame: Frame) -> Value:
        """The value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A field, key or index within a chain."""

    key: Step
    is_optional: bool


@dataclass(slots=True)
class Chain:
    """A value and the way into it. ``begin`` gives the value; ``cost`` is that of the chain itself."""

    begin: Step
    qualifiers: list[Qualifier] = field(default_factory=list)
    cost: int = 1

    def __call__(self, frame: Frame) -> Value:
        """The value at the end of the chain."""
        try:
            value = self.whole(frame)
        except EvaluationError:
            frame.spend(self.cost)
            raise
        frame.spend(self.cost)
        return value

    def whole(self, frame: Frame) -> Value:
        """The value, without the cost of the chain itself."""
        value, is_optional = self.resolved(frame)
        return Optional(value, is_there=True) if is_optional and type(value) is not Optional else value

    def resolved(self, frame: Frame, without_last: bool = False) -> tuple[Value, bool]:
        """The value, and whether it is one that may be absent."""
        value = self.begin(frame)
        is_optional = type(value) is Optional and bool(self.qualifiers)
        if is_optional:
            if not value.is_there:
                return value, True
            value = value.value
        for qualifier in self.qualifiers[: -1 if without_last else None]:
            is_optional = is_optional or qualifier.is_optional
            try:
                key = qualifier.key(frame)
            except EvaluationError:
                frame.spend(1)
                raise
            if is_optional:
                there = if_present(value, key)
                if not there.is_there:
                    return NONE, True
                frame.spend(1)
                value = there.value
            else:
                frame.spend(1)
                value = _qualified(value, key)
        return value, is_optional


def if_present(value: Value, key: Value) -> Optional:
    """What a map or a list has there; other values have nothing."""
    if isinstance(value, dict):
        return found(value, key)
    if type(value) is list and type(key) in {int, Uint} and 0 <= key < len(value):
        return Optional(value[key], is_there=True)
    return NONE


def _qualified(value: Value, key: Value) -> Value:
    there = if_present(value, key)
    if there.is_there:
        return there.value
    raise EvaluationError(f"index out of bounds: {key}" if type(value) is list else f"no such key: {key}")


def raising(error: EvaluationError) -> Step:
    """A step that fails."""

    def step(_frame: Frame) -> Value:
        raise error

    return step


def unpaid(chain: Chain) -> Step:
    """A key of another chain, which pays for it."""
    return lambda frame: chain.resolved(frame)[0]


def tested(chain: Chain, name: str) -> Step:
    """Whether the last part of a chain is there."""

    def value(frame: Frame) -> Value:
        held, is_optional = chain.resolved(frame, without_last=True)
        if is_optional and type(held) is Optional:
            if not held.is_there:
                return False
            held = held.value
        frame.spend(1)
        return if_present(held, name).is_there

    return value
