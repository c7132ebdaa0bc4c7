"""What the webhook answered and found, for its own page of metrics.

Rules are a fixed list and actions are three, so the number of series is bounded.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpufleet.admission.policies import Action
from gpufleet.admission.treatment import Judge, judged_by

PREFIX = "gpufleet_admission"
OUTCOMES = ("answered", "unreadable", "failed")
ACTIONS = (Action.AUDIT.value, Action.WARN.value, Action.DENY.value)
RULES = (*(rule.id for judge in (Judge.POLICY, Judge.WEBHOOK) for rule in judged_by(judge)), "images")
"""The rules that the webhook asks: all about one object, and the policy on images."""

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
"""Around the 10 ms that an answer may take, up to the time after which the API server goes on without it."""


class AdmissionRecord(Collector):
    """Counts of one process. ``ends_at_s`` says when the certificate in use ends (Unix time, or None)."""

    def __init__(self, ends_at_s: Callable[[], float | None]) -> None:
        self.registry = CollectorRegistry()
        self._ends_at_s = ends_at_s
        self._reviews = Counter(
            f"{PREFIX}_reviews", "Reviews by what came of them", ("outcome",), registry=self.registry
        )
        self._seconds = Histogram(
            f"{PREFIX}_review_seconds",
            "Time from a review's arrival to its answer",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._findings = Counter(
            f"{PREFIX}_findings",
            "Findings of rules in objects, by what was done about them",
            ("rule", "action"),
            registry=self.registry,
        )
        self._completions = Counter(
            f"{PREFIX}_completed_pods", "Pods to which something was added", registry=self.registry
        )
        # From 0 on, so that rules see the first event as an increase.
        for outcome in OUTCOMES:
            self._reviews.labels(outcome)
        for rule in RULES:
            for action in ACTIONS:
                self._findings.labels(rule, action)
        self.registry.register(self)

    def answered(self, outcome: str, seconds: float) -> None:
        """A review was answered, or could not be."""
        self._reviews.labels(outcome).inc()
        self._seconds.observe(seconds)

    def found(self, rule: str, action: str) -> None:
        """A rule found something."""
        self._findings.labels(rule, action).inc()

    def completed(self) -> None:
        """Something was added to a pod."""
        self._completions.inc()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """When the certificate ends."""
        family = GaugeMetricFamily(
            f"{PREFIX}_certificate_expiry_timestamp_seconds",
            "When the certificate that the webhook shows ends",
        )
        if (at_s := self._ends_at_s()) is not None:
            family.add_metric((), at_s)
        yield family
