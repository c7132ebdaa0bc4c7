"""Asks every check, and puts what is wrong in order: causes before what follows from them.

A failure is told below another one nearer to the root from which all its objects suffer: to mend that cause
mends it too.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Unjudged
from gpufleet.doctor.facts import Facts


class Status(enum.Enum):
    """How a point stands."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class FoundProblem:
    """A failure, the check that found it, and what follows from it."""

    check: Check
    failure: Failure
    follows: tuple["FoundProblem", ...] = ()


@dataclass(frozen=True)
class PointVerdict:
    """How one point of the checklist stands, with what was seen."""

    point: Point
    status: Status
    good: tuple[str, ...]
    unjudged: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosis:
    """All that was found. ``causes`` are in the order in which they are best mended."""

    facts: Facts
    points: tuple[PointVerdict, ...]
    causes: tuple[FoundProblem, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong, as far as could be judged."""
        return not self.causes

    def fails(self, fail_on: str) -> bool:
        """Whether something is wrong that a run is to fail on: "broken", "risk" (either), or "never"."""
        grades = {"broken": {Grade.BROKEN}, "risk": set(Grade), "never": set[Grade]()}[fail_on]
        return any(one.check.grade in grades for one in self.causes)


def diagnose(facts: Facts, checks: Iterable[Check]) -> Diagnosis:
    """Ask all checks about what is known."""
    found: list[FoundProblem] = []
    good: dict[Point, list[str]] = {}
    unjudged: dict[Point, list[str]] = {}
    for check in checks:
        # A check without all that it reads would call good what it cannot see.
        lacking = facts.lacking(check.reads)
        if lacking:
            reasons = "; ".join(f"{kind} cannot be listed ({facts.refused[kind]})" for kind in lacking)
            unjudged.setdefault(check.point, []).append(f"{check.title}: {reasons}")
            continue
        for verdict in check.judge(facts):
            match verdict:
                case Failure():
                    found.append(FoundProblem(check, verdict))
                case Good():
                    good.setdefault(check.point, []).append(verdict.says)
                case Unjudged():
                    unjudged.setdefault(check.point, []).append(verdict.says)
    failed = {one.check.point for one in found}
    for point in Point:
        if point not in failed and not good.get(point) and not unjudged.get(point):
            # A point of which no check said anything is not called passed.
            unjudged[point] = [point.nothing]
    points = tuple(
        PointVerdict(
            point,
            Status.FAILED if point in failed else Status.PASSED if good.get(point) else Status.NOT_JUDGED,
            tuple(good.get(point, ())),
            tuple(unjudged.get(point, ())),
        )
        for point in Point
    )
    return Diagnosis(facts, points, causes_first(found))


def causes_first(found: Sequence[FoundProblem]) -> tuple[FoundProblem, ...]:
    """The causes in order, each with what follows from it.

    What is broken comes before what is only a risk, then what is nearer to the root, then what more suffers.
    """
    order = sorted(found, key=_order)
    causes: list[tuple[FoundProblem, list[FoundProblem]]] = []
    for one in order:
        cause = next((c for c in causes if _explains(c[0], one)), None)
        if cause is None:
            causes.append((one, []))
        else:
            cause[1].append(one)
    return tuple(FoundProblem(one.check, one.failure, tuple(below)) for one, below in causes)


def _order(one: FoundProblem) -> tuple[bool, int, int, str]:
    suffering = len(one.failure.affects | set(one.failure.subjects))
    return (one.check.grade is Grade.RISK, one.check.layer, -suffering, one.check.id)


def _explains(cause: FoundProblem, one: FoundProblem) -> bool:
    subjects = set(one.failure.subjects)
    # What is only bad practice stays so when the cause is mended.
    follows = (
        cause.check.layer < one.check.layer
        and one.check.layer is not Layer.PRACTICE
        and not one.check.written
    )
    return follows and bool(subjects) and subjects <= cause.failure.affects
