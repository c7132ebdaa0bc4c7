"""A hundred thousand names that somebody makes are no hundred thousand series."""

from prometheus_client import generate_latest

from gpufleet.model.identifiers import QueueName
from gpufleet.scheduler.bounded_labels import OTHERS, VALUES_MAX, BoundedLabels
from gpufleet.scheduler.metrics import REJECTIONS, Metrics


def test_the_first_have_series_of_their_own_and_the_others_one_together() -> None:
    few = BoundedLabels(2)
    assert [few.of(name) for name in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHERS, "a", OTHERS, "b"]


def test_reasons_and_queues_that_others_name_stay_few() -> None:
    metrics = Metrics()
    for number in range(5 * VALUES_MAX):
        reason = metrics.rejection_reasons.of(f"reason-{number}")
        metrics.rejections.labels(reason).inc()
        metrics.queues.evicted("reclaimed", QueueName(f"queue-{number}"))
    lines = generate_latest(metrics.registry).decode().splitlines()
    assert sum("kubelet_rejections_total{" in line for line in lines) == VALUES_MAX + 1
    evicted = [line for line in lines if "queue_evictions_total{" in line and not line.endswith(" 0.0")]
    assert len(evicted) == VALUES_MAX + 1
    counted = next(line for line in lines if "kubelet_rejections_total{" in line and OTHERS in line)
    assert counted.endswith(f" {4.0 * VALUES_MAX + len(REJECTIONS)}")
