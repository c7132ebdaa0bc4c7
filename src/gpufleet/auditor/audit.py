"""The judge: follows writes one by one, looks closer at rest, and lists what broke.

findings = judge(of_objects(items), Rules(...), Evidence(...))
"""

from collections.abc import Iterable

from gpufleet.auditor import rest
from gpufleet.auditor.access import Access
from gpufleet.auditor.containers import Containers
from gpufleet.auditor.devices import Devices
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.queue_admissions import Admissions
from gpufleet.auditor.record import PODS, Write
from gpufleet.auditor.rules import Evidence, Rules
from gpufleet.auditor.running import Running
from gpufleet.auditor.world import World

NO_EVIDENCE = Evidence()


class Audit:
    """A judgement under way."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = Rules() if rules is None else rules
        self.world = World()
        self.findings: list[Finding] = []
        self._running = Running(self.rules)
        self._containers = Containers()
        self._checks = (
            Devices(self.rules),
            Admissions(self.rules),
            Access(self.rules),
            self._running,
        )

    def follow(self, write: Write) -> list[Finding]:
        """Take a write in; what broke with it."""
        self.world.follow(write)
        if write.kind == PODS and write.value is not None:
            self._containers.follow(write.value)
        found = [one for check in self._checks for one in check.follow(write, self.world)]
        self.findings += found
        return found

    def at_rest(self, evidence: Evidence = NO_EVIDENCE) -> list[Finding]:
        """What is wrong if nothing has changed for long enough that all agree."""
        return [
            *self._running.at_rest(),
            *rest.disagreements(self.world, self.rules, evidence),
            *self._containers.judged(self.world, self.rules, evidence),
        ]


def judge(
    writes: Iterable[Write], rules: Rules | None = None, evidence: Evidence = NO_EVIDENCE
) -> list[Finding]:
    """Everything that broke in a record."""
    audit = Audit(rules)
    for write in writes:
        audit.follow(write)
    return [*audit.findings, *(audit.at_rest(evidence) if audit.rules.at_rest else ())]
