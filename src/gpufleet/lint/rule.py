"""What a rule is: a pure function that looks at one object in its context and yields what it found.

``rules`` holds one module for each, with its page beside it; ``run`` asks them.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpufleet.lint.edits.edits import Fix
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.source.fields import Field


class Severity(enum.IntEnum):
    """How bad a finding is. The order is that of ``--fail-on``."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The word that people read and write."""
        return self.name.lower()


class Scope(enum.Enum):
    """What a rule needs to know besides the manifests."""

    MANIFEST = "manifest"
    CLUSTER = "cluster"
    RUNTIME = "runtime"


@dataclass(frozen=True)
class RuleFinding:
    """Something is wrong at a field.

    ``says`` is a sentence about this object, ``advice`` the way out, ``fix`` the same as edits where
    one way is mechanical and right. ``severity`` is that of the rule, where it says nothing.
    """

    field: Field
    says: str
    advice: str
    fix: Fix | None = None
    severity: Severity | None = None


@dataclass(frozen=True)
class Unjudged:
    """The rule concerns the object, and what it would have to know is not known."""

    field: Field
    lacks: str


def cluster_needed(*plurals: str) -> str:
    """What a rule lacks where objects of these kinds are not known, and how they are given to it."""
    return f"the cluster's {' and '.join(plurals)} (--live, or in --cluster FILE)"


CLUSTER_NEEDED = cluster_needed("nodes")
"""What most rules of the scope ``CLUSTER`` lack where nothing of a cluster is known."""

Verdicts = Iterable[RuleFinding | Unjudged]


@dataclass(frozen=True)
class Rule:
    """One rule. ``concerns`` says of which objects ``check`` is asked at all.

    ``judges_pods`` is unset where the object itself is judged, whatever becomes of its pods.
    """

    id: str
    title: str
    severity: Severity
    check: Callable[[Manifest, Context], Verdicts]
    scope: Scope = Scope.MANIFEST
    concerns: Callable[[Manifest], bool] = has_gpu_pods
    fixes: bool = False
    judges_pods: bool = True

    def severity_of(self, manifest: Manifest, found: RuleFinding) -> Severity:
        """How bad a finding is: no error where another object or controller has the last word on the pods."""
        severity = found.severity or self.severity
        if self.judges_pods and manifest.templates and not manifest.has_final_pods:
            return min(severity, Severity.WARNING)
        return severity
