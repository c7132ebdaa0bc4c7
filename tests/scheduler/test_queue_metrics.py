"""What Prometheus hears of queues: the figures by hand, and a bounded number of series whatever people do."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpufleet.cluster.queues.queue_figures import QueueFigures, ResourceFigures
from gpufleet.engine.instruction import QueueBar, WhyBarred
from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.scheduler.bounded_labels import OTHERS
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.queue_metrics import COUNTED_MAX, QUEUES_MAX, QueueMetrics
from tests.explain.test_seeing_queues import crowded
from tests.scheduler.world import World, in_world

Series = dict[tuple[str, ...], float]
GPU = QuotaResource("gpu")


def series(metrics: Metrics, name: str) -> Series:
    """The samples of a metric of queues, by the values of their labels."""
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    return {
        tuple(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"gpufleet_scheduler_queue_{name}"
    }


def queue(name: str, *resources: ResourceFigures) -> QueueFigures:
    return QueueFigures(QueueName(name), resources)


def test_a_scheduler_at_work_tells_how_its_queues_stand() -> None:
    async def story(world: World) -> None:
        await crowded(world)
        told = world.metrics
        assert series(told, "used") == {
            ("root", "gpu"): 8.0,
            ("a", "gpu"): 6.0,
            ("b", "gpu"): 1.0,
            ("c", "gpu"): 1.0,
        }
        assert series(told, "nominal")["a", "gpu"] == 4.0
        assert series(told, "borrowed")["a", "gpu"] == 2.0
        assert series(told, "lent")["c", "gpu"] == 1.0
        assert series(told, "fair_share")["a", "gpu"] == 5.0
        assert series(told, "dominant_share")["a",] == 0.25
        assert series(told, "pending_pods") == {("c", "quota"): 1.0}
        assert series(told, "active") == {(name,): 1.0 for name in ("root", "a", "b", "c")}
        # One pod of c was bound after the first figures, those of a and b before any were there.
        assert series(told, "wait_seconds_count") == {
            (OTHERS,): 2.0,
            **{(name,): 0.0 for name in ("root", "a", "b")},
            ("c",): 1.0,
        }
        await world.stop()
        assert series(told, "used") == {}

    in_world(story)


def test_amounts_are_in_the_unit_of_quotas() -> None:
    metrics = Metrics()
    memory = ResourceFigures(QuotaResource("gpu-memory"), 81920)
    metrics.queues.update([queue("a", ResourceFigures(GPU, 7500), memory)])
    assert series(metrics, "used") == {("a", "gpu"): 7.5, ("a", "gpu-memory"): 80.0 * 2**30}
    # Nobody worked out what it is owed: that is not 0.
    assert series(metrics, "fair_share") == {}


def test_figures_say_how_old_they_are() -> None:
    """A process that hangs serves its last page for a while, and autoscalers act on it."""
    now_s = 100.0
    registry = CollectorRegistry()
    metrics = QueueMetrics(registry, lambda: now_s)
    assert b"figures_age" not in generate_latest(registry)
    metrics.update([queue("a")])
    now_s = 107.5
    assert b"gpufleet_scheduler_queue_figures_age_seconds 7.5\n" in generate_latest(registry)
    metrics.clear()
    assert b"figures_age" not in generate_latest(registry)


def test_a_queue_that_is_not_in_force_is_0() -> None:
    metrics = Metrics()
    name = QueueName("a")
    metrics.queues.update([QueueFigures(name, bar=QueueBar(name, WhyBarred.HELD))])
    assert series(metrics, "active") == {("a",): 0.0}


def test_no_number_of_queues_makes_more_series_than_are_bounded() -> None:
    metrics = Metrics()
    many = [queue(f"q-{number:05}", ResourceFigures(GPU, 1000)) for number in range(QUEUES_MAX + 5)]
    metrics.queues.update(many)
    assert len(series(metrics, "used")) == QUEUES_MAX
    assert series(metrics, "left_out") == {(): 5.0}
    for one in many:
        metrics.queues.waited(one.queue, 1.0)
    metrics.queues.waited(QueueName("nobody-described-this"), 1.0)
    counts = series(metrics, "wait_seconds_count")
    assert len(counts) == COUNTED_MAX + 1
    assert counts[OTHERS,] == QUEUES_MAX + 5 - COUNTED_MAX + 1


def test_a_queue_that_is_gone_takes_its_series_along() -> None:
    metrics = Metrics()
    metrics.queues.update([queue("a", ResourceFigures(GPU, 1000)), queue("b")])
    metrics.queues.waited(QueueName("a"), 1.0)
    metrics.queues.update([queue("b")])
    assert series(metrics, "used") == {}
    assert series(metrics, "wait_seconds_count") == {(OTHERS,): 0, ("b",): 0}
    assert {name for name, _ in series(metrics, "evictions_total")} == {OTHERS, "b"}


def test_a_queue_stands_at_0_for_each_reason_before_a_pod_of_it_is_taken_back() -> None:
    metrics = Metrics()
    metrics.queues.update([queue("a")])
    before = {
        reason: count for (name, reason), count in series(metrics, "evictions_total").items() if name == "a"
    }
    reasons = ("preempted", "reclaimed", "stopped", "overtime", "moved", "drained", "interrupted", "overdue")
    assert before == dict.fromkeys(reasons, 0)
    metrics.queues.evicted("reclaimed", QueueName("a"))
    metrics.queues.evicted("reclaimed", QueueName("nobody-described-this"))
    counts = series(metrics, "evictions_total")
    assert (counts["a", "reclaimed"], counts["nobody-described-this", "reclaimed"]) == (1, 1)
