"""What is measured of each queue: its figures as they were last reported, its evictions and its pods' waits.

Names of queues come from people, so their number is bounded: the first by name have series of their own.
What is counted of all others is counted together under ``OTHERS``. Counters and histograms of a described
queue stand at 0 before its first event, which ``increase`` would miss otherwise. The figures of a queue that
is gone, and of a scheduler that does not lead, are absent.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpufleet.cluster.queues.queue_figures import QueueFigures, ResourceFigures
from gpufleet.engine.instruction import WhyBarred, WhyEvicted
from gpufleet.kube.codec.quota_amounts import nano_per_unit
from gpufleet.model.identifiers import QueueName
from gpufleet.scheduler.bounded_labels import OTHERS, BoundedLabels

QUEUES_MAX = 1000
"""Each queue has a series for each resource and figure; further queues are only counted."""

COUNTED_MAX = 200
"""What is counted is two dozen series a queue, so fewer queues have them."""

WAIT_BUCKETS_S = (0.1, 1, 10, 60, 300, 1800, 7200, 28800, 86400)
"""Coarser than the wait over all pods, because each queue has a histogram of its own."""

NANO = 1_000_000_000
"""Nano-units in a unit: ``nano_per_unit`` is the size of an amount's step in them, and Prometheus counts
units.
"""

FOR_QUEUES = tuple(
    why
    for why in WhyEvicted
    if why not in (WhyEvicted.GANG_INCOMPLETE, WhyEvicted.DEVICE_CONFLICT, WhyEvicted.GPU_MEMORY)
)
"""Why pods end for the sake of queues and their order; the others end for what they do themselves."""

PREFIX = "gpufleet_scheduler_queue"
Amount = Callable[[ResourceFigures], int | None]
AMOUNTS: dict[str, tuple[str, Amount]] = {
    "used": ("What pods of the queue, and of all below it, hold of a resource", lambda one: one.used),
    "nominal": ("What the queue is owed by itself", lambda one: one.nominal),
    "borrowed": ("What it holds of the quota of others", lambda one: one.borrowed),
    "lent": ("What others hold of its own quota", lambda one: one.lent),
    "protected": ("What pods that are never evicted hold of its own quota", lambda one: one.protected),
    "fair_share": (
        "What it would hold if all were divided anew, as far as it wants it",
        lambda one: one.owed,
    ),
}
"""Metrics by resource, with help and value, in the unit of quotas: GPUs, cores, bytes."""


class QueueMetrics(Collector):
    """Tells Prometheus of the queues."""

    def __init__(self, registry: CollectorRegistry, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        # Figures and their moment are replaced together: the endpoint's thread reads both.
        self._reported: tuple[tuple[QueueFigures, ...], float] = ((), now_s())
        self._left_out = 0
        self._counted: set[str] = set()
        self._evicted = BoundedLabels()
        registry.register(self)
        self.evictions = Counter(
            f"{PREFIX}_evictions",
            "Pods told to end for the queues' sake, by reason and queue",
            ("reason", "queue"),
            registry=registry,
        )
        self._waits = Histogram(
            f"{PREFIX}_wait_seconds",
            "Time from a pod's creation to its Binding by queue",
            ("queue",),
            buckets=WAIT_BUCKETS_S,
            registry=registry,
        )
        self._begin_at_0(OTHERS)

    def _begin_at_0(self, queue: str) -> None:
        """Make the series of a queue for all that is counted."""
        self._waits.labels(queue)
        for why in FOR_QUEUES:
            self.evictions.labels(why.value, queue)

    def update(self, figures: Iterable[QueueFigures]) -> list[QueueFigures]:
        """The report as of now; handed on."""
        every = list(figures)
        # By name, so that the queues with series are the same ones from one look to the next.
        by_name = sorted(every, key=lambda one: one.queue)
        self._left_out = max(0, len(every) - QUEUES_MAX)
        self._reported = (tuple(by_name[:QUEUES_MAX]), self._now_s())
        self._count([str(one.queue) for one in by_name])
        return every

    def _count(self, described: Sequence[str]) -> None:
        """Begin to count for new queues as far as there is room, and end it for those that are gone."""
        for gone in self._counted.difference(described):
            self._counted.remove(gone)
            self._waits.remove(gone)
            self._evicted.forget(gone)
            for why in FOR_QUEUES:
                self.evictions.remove(why.value, gone)
        for name in described:
            if len(self._counted) >= COUNTED_MAX:
                return
            # Both labels have one bound, so that a queue is counted in all metrics or in none.
            if name not in self._counted and self._evicted.of(name) == name:
                self._counted.add(name)
                self._begin_at_0(name)

    def clear(self) -> None:
        """Forget the figures of all queues: a scheduler that leads no more does not know how they stand."""
        self.update(())

    def waited(self, queue: QueueName, wait_s: float) -> None:
        """A pod of the queue was bound after so long."""
        name = str(queue) if queue in self._counted else OTHERS
        self._waits.labels(name).observe(max(0.0, wait_s))

    def evicted(self, reason: str, queue: QueueName) -> None:
        """A pod of the queue was told to end; it may be a queue that is not described."""
        self.evictions.labels(reason, self._evicted.of(str(queue))).inc()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Asked from the endpoint's thread: what is looked at is never changed, only replaced."""
        figures, reported_s = self._reported
        if figures:
            # Autoscalers act on these figures, and a scheduler that hangs still serves its last page.
            yield GaugeMetricFamily(
                f"{PREFIX}_figures_age_seconds",
                "Time since the figures of queues were reported",
                value=max(0.0, self._now_s() - reported_s),
            )
        for field, (text, amount) in AMOUNTS.items():
            yield _amounts(f"{PREFIX}_{field}", text, amount, figures)
        share = GaugeMetricFamily(
            f"{PREFIX}_dominant_share",
            "The dominant share by weight; absent where a queue comes after all others",
            labels=("queue",),
        )
        pending = GaugeMetricFamily(
            f"{PREFIX}_pending_pods", "Pods that wait, by reason", labels=("queue", "reason")
        )
        in_force = GaugeMetricFamily(
            f"{PREFIX}_active",
            "1 where work of the queue may start as far as the queue goes",
            labels=("queue",),
        )
        for one in figures:
            if one.share_milli is not None:
                share.add_metric((one.queue,), one.share_milli / 1000)
            for reason, pods in one.pending.items():
                pending.add_metric((one.queue, reason), pods)
            in_force.add_metric((one.queue,), float(one.bar is None or one.bar.why is WhyBarred.INNER))
        yield from (share, pending, in_force)
        yield GaugeMetricFamily(
            f"{PREFIX}_left_out", "Queues beyond those that have series", value=self._left_out
        )


def _amounts(name: str, text: str, amount: Amount, figures: tuple[QueueFigures, ...]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("queue", "resource"))
    for queue in figures:
        for one in queue.resources:
            units = amount(one)
            if units is not None:
                family.add_metric((queue.queue, one.resource), units * nano_per_unit(one.resource) / NANO)
    return family
