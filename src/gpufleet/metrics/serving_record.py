"""What was served and refused, for the server's own page of metrics.

The age of a value is noted when it is asked for, whether or not it is served: an alert has to see that
autoscalers get nothing because everything is old.
"""

import math
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

PREFIX = "gpufleet_metrics"
FORGOTTEN_AFTER_S = 120.0
"""A metric that was not asked for in so long has no age: an autoscaler asks every fifteen seconds."""

OUTCOMES = ("served", "refused")
STATUSES = ("200", "401", "403", "404", "500")
"""What requests are answered with most; others are counted from their first on."""


class ServingRecord(Collector):
    """Counts and ages by metric; names are those of the catalogue, so their number is bounded."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self._now = now
        self._ages: dict[str, tuple[float, float]] = {}
        self._values = Counter(
            f"{PREFIX}_values",
            "Values that were asked for, by whether they were served or refused as old or no number",
            ("outcome",),
            registry=self.registry,
        )
        self._requests = Counter(
            f"{PREFIX}_requests", "Requests by the status of their answer", ("code",), registry=self.registry
        )
        # From 0 on, so that rules see the first event as an increase.
        for outcome in OUTCOMES:
            self._values.labels(outcome)
        for code in STATUSES:
            self._requests.labels(code)
        self.registry.register(self)

    def note(self, metric: str, age_s: float, *, served: bool) -> None:
        """A value was asked for."""
        self._values.labels("served" if served else "refused").inc()
        if not math.isfinite(age_s):
            return
        now_s = self._now()
        at_s, before_s = self._ages.get(metric, (now_s, age_s))
        # Of values that were asked for together, the oldest counts.
        oldest_s = max(before_s, age_s) if now_s - at_s < 1.0 else age_s
        self._ages[metric] = (now_s, oldest_s)

    def answered(self, status: int) -> None:
        """A request was answered."""
        self._requests.labels(str(status)).inc()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The ages of what was asked for a short while ago."""
        family = GaugeMetricFamily(
            f"{PREFIX}_value_age_seconds",
            "Age of the oldest value that was asked for last, by metric; absent where it is not asked for",
            labels=("metric",),
        )
        now_s = self._now()
        for metric, (at_s, age_s) in sorted(self._ages.items()):
            if now_s - at_s <= FORGOTTEN_AFTER_S and age_s >= 0:
                family.add_metric((metric,), age_s + (now_s - at_s))
        yield family
