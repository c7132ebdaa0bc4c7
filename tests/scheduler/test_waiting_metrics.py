"""What Prometheus hears of work that waits: its age by queue and cause, what never fits, gangs in part."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpufleet.engine.explanations.causes import never_fits
from gpufleet.engine.instruction import (
    NodesLacking,
    QueueBar,
    QuotaLimit,
    QuotaShortage,
    Verdict,
    WhyBarred,
)
from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.waiting_metrics import WaitingFigures, WaitingMetrics
from tests.scheduler.test_bound_terms import in_queue
from tests.scheduler.test_eviction_planner import add_queue
from tests.scheduler.test_reservations import a_gang_that_waits
from tests.scheduler.world import World, in_world

Series = dict[tuple[str, ...], float]


def series(metrics: Metrics, name: str) -> Series:
    """The samples of a metric of the scheduler, by the values of their labels in the order of their names."""
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"gpufleet_scheduler_{name}"
    }


def test_figures_say_how_old_they_are() -> None:
    now_s = 100.0
    registry = CollectorRegistry()
    metrics = WaitingMetrics(registry, lambda: now_s)
    metrics.update(WaitingFigures(1.0))
    now_s = 109.0
    assert b"gpufleet_scheduler_waiting_figures_age_seconds 9.0\n" in generate_latest(registry)
    metrics.update(None)
    assert b"figures_age" not in generate_latest(registry)


def test_the_oldest_wait_is_told_by_queue_and_cause() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 2)
        world.pod("runs", gpus=2, labels=in_queue("a"))
        await world.settle(30)
        world.pod("older", labels=in_queue("a"))
        await world.settle(40)
        world.pod("younger", labels=in_queue("a"))
        await world.settle(30)
        ((labels, age_s),) = series(world.metrics, "oldest_wait_seconds").items()
        assert labels == ("queue-quota", "a")
        # 70 s have passed since the older one came; a look is at most 10 s old.
        assert 60 <= age_s <= 70
        assert series(world.metrics, "never_fits_pods") == {}

    in_world(story)


def test_what_starts_only_after_a_change_is_counted_by_cause() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        world.pod("too-large", gpus=4)
        world.pod("elsewhere", gpus=1, nodeSelector={"zone": "none"})
        world.pod("runs", gpus=2)
        await world.settle()
        world.pod("waits", gpus=2)
        await world.settle()
        assert series(world.metrics, "never_fits_pods") == {
            ("gpu-count", "default"): 1,
            ("selector", "default"): 1,
        }

    in_world(story)


def test_gangs_by_how_many_of_their_members_run() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=3)
        words = {"gpufleet.io/gang-min-members": "2"}
        for gang, members in (("runs", 2), ("short", 1)):
            for number in range(members):
                world.pod(f"{gang}-{number}", annotations={"gpufleet.io/gang": gang, **words})
        await world.settle()
        assert series(world.metrics, "gangs") == {
            ("default", "partial"): 0,
            ("default", "waiting"): 1,
            ("default", "whole"): 1,
        }
        assert series(world.metrics, "partial_gang_seconds") == {}
        world.finish("runs-0", "Failed")
        world.delete("runs-0")
        await world.settle(30)
        assert series(world.metrics, "gangs")["default", "partial"] == 1
        (age_s,) = series(world.metrics, "partial_gang_seconds").values()
        # Since when it is short the API says no nearer than since its members were bound.
        assert 20 <= age_s <= 55

    in_world(story)


def test_nodes_with_a_report_and_first_verdicts_are_told_while_this_process_leads() -> None:
    async def story(world: World) -> None:
        world.node("reported", gpus=1)
        world.node("counted", gpus=1, devices=False)
        world.pod("runs")
        world.pod("too-large", gpus=4)
        await world.settle()
        assert series(world.metrics, "node_report") == {("reported",): 1}
        assert series(world.metrics, "first_verdict_seconds_count") == {(): 2}
        await world.stop()
        for name in ("node_report", "never_fits_pods", "oldest_wait_seconds", "gangs"):
            assert series(world.metrics, name) == {}

    in_world(story)


def test_a_reservation_is_overdue_by_the_start_that_it_first_expected() -> None:
    async def story(world: World) -> None:
        await a_gang_that_waits(world)
        world.finish("brief")
        await world.settle(60)
        assert series(world.metrics, "reservation_overdue_seconds") == {}
        # The work that it waits for said 20 min, of which less than two have passed.
        await world.settle(25 * 60)
        assert 5 * 60 < series(world.metrics, "reservation_overdue_seconds")["team",] < 8 * 60
        world.finish("old")
        await world.settle(30)
        assert world.node_of("train-0") == "n"
        assert series(world.metrics, "reservation_overdue_seconds") == {}

    in_world(story)


def test_counters_of_known_values_stand_at_0_before_the_first_event() -> None:
    """``increase`` of a series that begins at 1 is 0, so an alert would miss the first event."""
    metrics = Metrics()
    assert series(metrics, "evictions_total")["refused", "gang-incomplete"] == 0
    assert series(metrics, "evictions_refused_total")["disruption-budget",] == 0
    assert series(metrics, "kubelet_rejections_total")["UnexpectedAdmissionError",] == 0


def short_of(asked: int, allowed: int) -> QuotaShortage:
    queue, resource = QueueName("a"), QuotaResource("gpu")
    return QuotaShortage(queue, resource, QuotaLimit.BORROWING, 0, asked, allowed, max(0, asked - allowed))


def lacks(*reasons: str) -> NodesLacking:
    return NodesLacking(reasons, 1)


@pytest.mark.parametrize(
    ("verdict", "never"),
    [
        (Verdict(0, {}, {}, None), True),
        (Verdict(1, {"gpu-busy": 1}, {"gpu-busy": 1}, None, lacks("gpu-busy")), False),
        (Verdict(1, {"gpu-count": 1}, {"gpu-count": 1}, None, lacks("gpu-count")), True),
        (Verdict(1, {"cordoned": 1}, {"cordoned": 1}, None, lacks("cordoned")), False),
        (Verdict(2, {"gpu-count": 1}, {"gpu-count": 1}, None, lacks("gpu-count")), False),
        (Verdict(1, {}, {}, None, quota=short_of(asked=8, allowed=8)), False),
        (Verdict(1, {}, {}, None, quota=short_of(asked=9, allowed=8)), True),
        (Verdict(1, {}, {}, None, bar=QueueBar(QueueName("a"), WhyBarred.UNKNOWN)), True),
        (Verdict(1, {}, {}, None, bar=QueueBar(QueueName("a"), WhyBarred.HELD)), False),
    ],
    ids=[
        "no nodes",
        "room comes by itself",
        "no node has so many",
        "a cordon is lifted",
        "one node has room",
        "quota that is in use",
        "more than the queue may ever have",
        "no such queue",
        "a queue that is held",
    ],
)
def test_what_never_fits(verdict: Verdict, never: bool) -> None:
    assert never_fits(verdict) is never
