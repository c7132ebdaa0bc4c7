"""The diagnosis as programs read it. ``schema`` names the form; fields are only ever added to it."""

import msgspec

from gpufleet.doctor.diagnosis import Diagnosis, FoundProblem

SCHEMA = "gpufleet.io/doctor/v1"


class MendReport(msgspec.Struct, frozen=True):
    """One way to mend a failure."""

    does: str
    command: str
    manifest: str


class FailureReport(msgspec.Struct, frozen=True):
    """Something that is wrong; ``follows`` is what is mended with it."""

    check: str
    point: int
    grade: str
    says: str
    why: str
    subjects: tuple[str, ...]
    evidence: tuple[str, ...]
    mends: tuple[MendReport, ...]
    follows: tuple["FailureReport", ...]


class PointReport(msgspec.Struct, frozen=True):
    """A point of the checklist."""

    number: int
    title: str
    status: str
    good: tuple[str, ...]
    unjudged: tuple[str, ...]


class Report(msgspec.Struct, frozen=True):
    """The whole report of a diagnosis."""

    schema: str
    healthy: bool
    server_version: str
    nodes: int
    gpu_nodes: int
    points: tuple[PointReport, ...]
    causes: tuple[FailureReport, ...]


def report_of(diagnosis: Diagnosis) -> Report:
    """The diagnosis, ready to be written."""
    facts = diagnosis.facts
    points = tuple(
        PointReport(one.point.number, one.point.title, one.status.value, one.good, one.unjudged)
        for one in diagnosis.points
    )
    causes = tuple(map(_failure, diagnosis.causes))
    return Report(
        SCHEMA,
        diagnosis.is_healthy,
        facts.version,
        len(facts.nodes),
        len(facts.gpu_nodes),
        points,
        causes,
    )


def _failure(one: FoundProblem) -> FailureReport:
    failure, check = one.failure, one.check
    return FailureReport(
        check.id,
        check.point.number,
        check.grade.value,
        failure.says,
        check.why,
        failure.subjects,
        failure.evidence,
        tuple(MendReport(mend.does, mend.command, mend.manifest) for mend in failure.mends),
        tuple(map(_failure, one.follows)),
    )
