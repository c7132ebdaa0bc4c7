"""What checks found is told in the order of cause and effect, and nothing unknown counts as right."""

from collections.abc import Iterable

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Unjudged
from gpufleet.doctor.diagnosis import Diagnosis, Status, diagnose
from gpufleet.doctor.facts import Facts
from tests.doctor.facts_of_text import facts_of

EMPTY = facts_of("")


def a_check(
    name: str,
    *verdicts: Failure | Good | Unjudged,
    layer: Layer = Layer.STACK,
    grade: Grade = Grade.BROKEN,
    reads: tuple[str, ...] = (),
) -> Check:
    def judge(_: Facts) -> Iterable[Failure | Good | Unjudged]:
        return verdicts

    return Check(name, Point.STACK, layer, f"title of {name}", "why", judge, reads, grade)


def a_failure(*subjects: str, affects: Iterable[str] = ()) -> Failure:
    return Failure(f"{subjects} wrong", subjects, (), (), frozenset(affects))


def order(diagnosis: Diagnosis) -> list[tuple[str, list[str]]]:
    return [(one.check.id, [below.check.id for below in one.follows]) for one in diagnosis.causes]


def stack(diagnosis: Diagnosis) -> Status:
    return next(one.status for one in diagnosis.points if one.point is Point.STACK)


def test_what_is_nearer_to_the_root_comes_first() -> None:
    found = diagnose(
        EMPTY,
        [
            a_check("pods", a_failure("Pod a"), layer=Layer.PLACEMENT),
            a_check("nodes", a_failure("Node n"), layer=Layer.NODE),
        ],
    )
    assert order(found) == [("nodes", []), ("pods", [])]


def test_what_suffers_from_a_cause_is_told_below_it() -> None:
    found = diagnose(
        EMPTY,
        [
            a_check("pods", a_failure("Pod a"), a_failure("Pod b"), layer=Layer.PLACEMENT),
            a_check("plugin", a_failure("Node n", affects=["Node n", "Pod a"]), layer=Layer.STACK),
        ],
    )
    assert order(found) == [("plugin", ["pods"]), ("pods", [])]


def test_of_two_things_of_one_layer_neither_explains_the_other() -> None:
    found = diagnose(
        EMPTY,
        [a_check("one", a_failure("Pod a", affects=["Pod a"])), a_check("two", a_failure("Pod a"))],
    )
    assert order(found) == [("one", []), ("two", [])]


def test_what_is_broken_comes_before_what_may_break() -> None:
    found = diagnose(
        EMPTY,
        [
            a_check("risk", a_failure("Node n"), layer=Layer.NODE, grade=Grade.RISK),
            a_check("broken", a_failure("Pod a"), layer=Layer.START),
        ],
    )
    assert order(found) == [("broken", []), ("risk", [])]


def test_of_one_layer_what_more_suffer_from_comes_first() -> None:
    found = diagnose(
        EMPTY,
        [a_check("few", a_failure("Node a")), a_check("many", a_failure("Node b", "Node c"))],
    )
    assert order(found) == [("many", []), ("few", [])]


def test_a_point_of_which_nothing_is_known_is_not_passed() -> None:
    assert stack(diagnose(EMPTY, [])) is Status.NOT_JUDGED
    assert stack(diagnose(EMPTY, [a_check("a", Unjudged("no facts"))])) is Status.NOT_JUDGED
    assert stack(diagnose(EMPTY, [a_check("a", Good("seen"), Unjudged("no facts"))])) is Status.PASSED
    assert stack(diagnose(EMPTY, [a_check("a", Good("seen"), a_failure("Node n"))])) is Status.FAILED


def test_a_check_does_not_judge_what_may_not_be_listed() -> None:
    facts = facts_of("", refused={"DaemonSet": 'daemonsets.apps is forbidden: User "ann" cannot list'})
    found = diagnose(facts, [a_check("a", a_failure("Node n"), reads=("Node", "DaemonSet"))])
    assert not found.causes
    (said,) = next(one.unjudged for one in found.points if one.point is Point.STACK)
    assert said.startswith("title of a: DaemonSet cannot be listed (daemonsets.apps is forbidden")
