"""The answer of ``gpufleet admission plan``, as its JSON says it."""

import msgspec

SCHEMA = "gpufleet.io/admission-plan/v1"
"""A change that breaks readers of the JSON gets another version."""

OBJECT, PODS = "object", "pods"


class PlannedFinding(msgspec.Struct, frozen=True, rename="camel"):
    """What a rule finds. ``rule`` is ``images`` for the policy on images, which is no rule of lint.

    ``action`` is refused, warned, noted or passes. ``at`` says what would be judged so: the ``object`` if
    it were made anew, the next ``pods`` that it makes, or both. ``judge`` is policy or webhook.
    """

    rule: str
    severity: str
    action: str
    judge: str
    at: tuple[str, ...]
    words: str


class ExceptedRule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule that an annotation excepts the object from. ``until`` is null for an exception without end."""

    rule: str
    reason: str
    until: str | None


class FieldChange(msgspec.Struct, frozen=True, rename="camel"):
    """A field of a pod before and after completion; null where it is not there."""

    field: str
    before: str | None
    after: str | None


class PlannedWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """One object with what would be said of it.

    ``pods`` are those that it has now; null for a pod, and where files do not tell.
    """

    kind: str
    name: str
    pods: int | None
    action: str
    findings: tuple[PlannedFinding, ...]
    excepted: tuple[ExceptedRule, ...]
    completed: tuple[FieldChange, ...]


class PlannedNamespace(msgspec.Struct, frozen=True, rename="camel"):
    """One namespace. The labels of today are null where it has none.

    ``looked_at`` counts all objects with pods; ``workloads`` are those of which something is said.
    """

    namespace: str
    label: str | None
    mode: str
    images_label: str | None
    images_mode: str
    completes: bool
    looked_at: int
    refused: int
    warned: int
    completed: int
    workloads: tuple[PlannedWorkload, ...]


class AdmissionPlan(msgspec.Struct, frozen=True, rename="camel"):
    """The whole plan."""

    schema: str
    namespaces: tuple[PlannedNamespace, ...]
    notes: tuple[str, ...]

    @property
    def refuses(self) -> bool:
        """Whether anything would be refused."""
        return any(one.refused for one in self.namespaces)
