"""What the scheduler measures of itself, under names that follow Prometheus' conventions.

Every figure is kept by the registry of one process and served by ``endpoint``. A gauge that has no value yet
is absent. Counters whose labels can have only known values stand at 0 from the beginning: what counts from
there on sees the first event too, for which ``increase`` needs a sample before it.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gpufleet.cluster.watching.mirrors import FOLLOWED_BY_SCHEDULER
from gpufleet.engine.instruction import WhyEvicted
from gpufleet.eviction.plan import Cause, EvictionRefusal, Victim
from gpufleet.kube.objects.pod import KUBELET_REASONS
from gpufleet.model.identifiers import QueueName
from gpufleet.model.resource_names import AMD_GPU, INTEL_GPU_XE, NVIDIA_GPU
from gpufleet.scheduler.bind_outcome import Outcome
from gpufleet.scheduler.bounded_labels import BoundedLabels
from gpufleet.scheduler.queue_metrics import QueueMetrics
from gpufleet.scheduler.waiting_metrics import WaitingMetrics

# From a millisecond to the limit of one request, and from an idle cluster's wait to a day in a queue.
LATENCY_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
WAIT_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400)

REJECTIONS = (
    *sorted(KUBELET_REASONS),
    *(f"OutOf{name}" for name in ("cpu", "memory", "ephemeral-storage", "pods")),
    *(f"OutOf{name}" for name in (NVIDIA_GPU, AMD_GPU, INTEL_GPU_XE)),
)
"""Reasons of kubelets that are counted from 0 on; of resources with other names, from the first one."""


class Metrics:
    """The scheduler's own metrics and the registry that holds them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.rounds = self._counter("rounds", "Decision rounds")
        self.round_seconds = self._histogram("round_seconds", "Time of a decision round", LATENCY_BUCKETS_S)
        self.binds = self._counter("binds", "Bindings by their outcome", ("outcome",))
        self.bind_seconds = self._histogram("bind_seconds", "Time of one Binding", LATENCY_BUCKETS_S)
        self.first_verdict_seconds = self._histogram(
            "first_verdict_seconds",
            "Time from the first sight of a pod to the end of the round that placed it or said why it waits",
            LATENCY_BUCKETS_S,
        )
        self.wait_seconds = self._histogram(
            "pod_wait_seconds", "Time from a pod's creation to its Binding", WAIT_BUCKETS_S
        )
        self.pods = self._gauge("pods", "Pods of this scheduler by state", ("state",))
        self.unreadable = self._gauge("unreadable_objects", "Objects set aside as malformed", ("kind",))
        self.foreign_gpus = self._gauge(
            "foreign_gpus", "GPUs held without a grant of this scheduler, by what holds them", ("holder",)
        )
        self.kept_objects = self._gauge(
            "kept_objects", "Objects that count on although their kind is served no more", ("kind",)
        )
        self.unreported_nodes = self._gauge(
            "unreported_nodes",
            "Nodes that get no work with GPUs because no readable report tells which they have",
        )
        self.evictions = self._counter("evictions", "Evictions by reason and outcome", ("reason", "outcome"))
        self.evictions_refused = self._counter(
            "evictions_refused", "Evictions that did not happen, by cause", ("cause",)
        )
        self.nominations = self._counter("nominations", "Pods for which a place was kept")
        self.reports_dropped = self._counter("reports_dropped", "Events not written, to keep memory bounded")
        self.relists = self._counter(
            "relists", "Lists beyond the first of each leadership, by kind of object", ("kind",)
        )
        self.watch_age_seconds = self._gauge(
            "watch_age_seconds", "Time since a watch said anything", ("kind",)
        )
        self.leader = self._gauge("leader", "1 while this process leads")
        self.epoch = self._gauge("epoch", "Number of the leadership under which this process writes")
        self.credential_expiry = self._gauge(
            "credential_expiry_timestamp_seconds",
            "When a credential of the way to the API server ends, unless it is renewed",
            ("credential",),
        )
        self.rejections = self._counter("kubelet_rejections", "Pods that a kubelet turned away", ("reason",))
        self.queues = QueueMetrics(self.registry)
        self.waiting = WaitingMetrics(self.registry)
        self.rejection_reasons = BoundedLabels()
        self._begin_at_0()

    def _begin_at_0(self) -> None:
        """Make the series of all known values."""
        # A series that first appears with its first count shows no rise to Prometheus.
        for outcome in Outcome:
            self.binds.labels(outcome.value)
        for watched in FOLLOWED_BY_SCHEDULER:
            self.relists.labels(watched.kind.resource)
        for why in WhyEvicted:
            for result in ("evicted", "deleted", "refused"):
                self.evictions.labels(why.value, result)
        for cause in Cause:
            self.evictions_refused.labels(cause.value)
        for reason in REJECTIONS:
            self.rejections.labels(self.rejection_reasons.of(reason))

    def rejected(self, reason: str) -> None:
        """A kubelet turned a pod away."""
        self.rejections.labels(self.rejection_reasons.of(reason)).inc()

    def waited(self, queue: QueueName, wait_s: float) -> None:
        """A pod was bound so long after it was made."""
        self.wait_seconds.observe(max(0.0, wait_s))
        self.queues.waited(queue, wait_s)

    def eviction_granted(self, victim: Victim) -> None:
        """A pod was told to end."""
        self.evictions.labels(victim.reason, "deleted" if victim.deleted else "evicted").inc()

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod that was to end stays."""
        self.evictions.labels(refusal.victim.reason, "refused").inc()
        self.evictions_refused.labels(refusal.cause.value).inc()

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"gpufleet_scheduler_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"gpufleet_scheduler_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"gpufleet_scheduler_{name}", text, buckets=buckets, registry=self.registry)
