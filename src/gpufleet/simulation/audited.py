"""The history of a run as the auditor reads it: every run has a judge, too, that shares nothing with us."""

from collections.abc import Iterator

from gpufleet.auditor.audit import judge
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.record import Write
from gpufleet.auditor.rules import Evidence, Rules
from gpufleet.simulation.history import History

NO_EVIDENCE = Evidence()


def writes_of(history: History) -> Iterator[Write]:
    """The writes, in the auditor's form."""
    for one in history.writes:
        yield Write(one.kind[1], one.value, one.before, one.at_s, one.user)


def findings_of(history: History, *, at_rest: bool, evidence: Evidence = NO_EVIDENCE) -> list[Finding]:
    """What the auditor finds. ``at_rest``: the run ended in calm, so all have to agree."""
    rules = history.rules
    asked = Rules(
        scheduler_users=rules.scheduler_users,
        tenants=rules.tenants,
        grants_required=rules.grants_required,
        swapped=rules.swapped,
        at_rest=at_rest,
    )
    return judge(writes_of(history), asked, evidence)
