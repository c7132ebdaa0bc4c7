"""What was asked and answered, for the program's own page of metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gpufleet.expander.answering import Answered
from gpufleet.expander.choice import Outcome

PREFIX = "gpufleet_expander"
FAILED = "failed"
BUCKETS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5)
"""The autoscaler waits for 5 s."""


class ExpanderRecord:
    """Counts by outcome, how long answers took, and how many nodes are on their way."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._questions = Counter(
            f"{PREFIX}_questions",
            "Questions of Cluster Autoscaler by what came of them: an option was chosen, options without our "
            "pods were left to it, all were vetoed, or it failed and the autoscaler chose itself",
            ("outcome",),
            registry=self.registry,
        )
        self._duration = Histogram(
            f"{PREFIX}_answer_duration_seconds",
            "How long an answer took; the autoscaler waits for 5 s",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._coming = Gauge(
            f"{PREFIX}_coming_nodes",
            "Nodes that were chosen and had not joined at the last question",
            registry=self.registry,
        )
        # From 0 on, so that rules see the first event as an increase.
        for outcome in (*(one.value for one in Outcome), FAILED):
            self._questions.labels(outcome)

    def answered(self, answered: Answered) -> None:
        """A question was answered."""
        self._questions.labels(answered.choice.outcome.value).inc()
        self._duration.observe(answered.took_s)
        self._coming.set(answered.coming_nodes)

    def failed(self) -> None:
        """A question ended with an error."""
        self._questions.labels(FAILED).inc()
