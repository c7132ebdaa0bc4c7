"""Steps of calls: which arguments are computed, which overload is called, and what it costs.

Costs: cel-go, interpreter/runtimecost.go; Kubernetes, apiserver/pkg/cel/library/cost.go.
"""

from dataclasses import dataclass

from gpufleet.device_selectors.cel_errors import EvaluationError
from gpufleet.device_selectors.functions import Overload
from gpufleet.device_selectors.steps import Constant, Frame, Step
from gpufleet.device_selectors.types import has_type
from gpufleet.device_selectors.values import FAILED, Optional, Uint, Value, is_equal

_PRICED_BY_TYPES = frozenset(
    ("_+_", "_<_", "_<=_", "_>_", "_>=_", "string", "bytes", "@in", "sort", "@sortByAssociatedKeys")
)
"""Functions that cost by the overload: 1 where only the values tell which one it is."""

_SET_KINDS = (bool, int, Uint, float, str)


def junction(terms: list[Step], is_or: bool) -> Step:
    """``&&`` and ``||``: a term that settles it absorbs the errors of others."""

    def value(frame: Frame) -> Value:
        failed: EvaluationError | None = None
        for term in terms:
            try:
                held = term(frame)
            except EvaluationError as error:
                failed = failed or error
                continue
            if held is is_or:
                return is_or
            if type(held) is not bool:
                failed = failed or EvaluationError("no such overload")
        if failed is not None:
            raise failed
        return not is_or

    return value


def not_strictly_false(inner: Step) -> Step:
    """True unless the step says False; an error inside a loop does not end it."""

    def value(frame: Frame) -> Value:
        try:
            held = inner(frame)
        except EvaluationError:
            held = True
        frame.spend(1)
        return held is not False

    return value


def alternative(target: Step, other: Step, name: str) -> Step:
    """``or`` and ``orValue``: the other is computed where the first is absent."""

    def value(frame: Frame) -> Value:
        held = target(frame)
        if type(held) is not Optional:
            raise EvaluationError("no such overload")
        if held.is_there:
            return held if name == "or" else held.value
        return other(frame)

    return value


def membership(wanted: Step, values: list[Value]) -> Step | None:
    """``x in [1, 2]`` with constants is a look into a set, and free."""
    if not values:
        return Constant(value=False)
    if not all(type(one) in _SET_KINDS for one in values):
        return None

    def value(frame: Frame) -> Value:
        held = wanted(frame)
        return type(held) in _SET_KINDS and any(is_equal(held, one) for one in values)

    return value


def called(
    name: str, steps: list[Step], overloads: tuple[Overload, ...], every: tuple[Overload, ...], both: int
) -> Step:
    """A call. The overload that types settled on has its cost; where values settle it, the name has it."""
    only = overloads[0] if len(overloads) == 1 else None
    priced = only or (None if name in _PRICED_BY_TYPES else overloads[0])

    def value(frame: Frame) -> Value:
        arguments = _evaluated(steps, frame, both)
        if len(arguments) < len(steps):
            raise arguments[-1].error
        result: Value = FAILED
        try:
            for one in arguments:
                if type(one) is _Raised:
                    raise one.error
            # Where an argument is dynamic, its type is only known now, and chooses the overload.
            for overload in (only,) if only else every:
                takes = overload.takes
                if len(takes) == len(arguments) and all(map(has_type, arguments, takes)):
                    result = overload.does(*arguments)
                    return result
            raise EvaluationError(f"no such overload: {name}")
        finally:
            seen = [FAILED if type(one) is _Raised else one for one in arguments]
            frame.spend(priced.cost(seen, result) if priced else 1)

    return value


BOTH = 2
"""Of up to two arguments both are computed also where the first fails, as Kubernetes' library does."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """An argument without a value."""

    error: EvaluationError


def _evaluated(steps: list[Step], frame: Frame, both: int) -> list[Value]:
    """The arguments; of more than ``both`` those up to the first that fails."""
    found_here: list[Value] = []
    for step in steps:
        try:
            found_here.append(step(frame))
        except EvaluationError as error:
            found_here.append(_Raised(error))
            if len(steps) > both:
                break
    return found_here
