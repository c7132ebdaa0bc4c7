"""What the scheduler reads of pods before it takes back: for whom nobody goes, who is safe, what is lost."""

from datetime import timedelta
from typing import Any

import pytest

from tests.scheduler.test_eviction_planner import PODS, add_queue, is_leaving, of, runs
from tests.scheduler.world import World, in_world

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PREEMPTIBLE = "gpufleet.io/preemptible"
SAVED = "gpufleet.io/checkpointed-at"


def add_class(world: World, name: str, *, preemptible: str) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    world.add({**kind, "metadata": {"name": name, "labels": {PREEMPTIBLE: preemptible}}, "value": 0})


def time_in(world: World, seconds: float = 0.0) -> str:
    """A time of the API so many seconds from now."""
    return (world.clock.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def says_it_saved(world: World, name: str, when: str | None) -> None:
    """A running pod writes about itself."""
    assert world.request("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": {SAVED: when}}}) == 200


async def full(world: World, *names: str, after: str = "0s", **more: Any) -> None:
    """Pods of queue a on a node with no room for more."""
    world.node("n", gpus=len(names))
    add_queue(world, "a", len(names), preemption={"preemptAfter": after})
    for name in names:
        world.pod(name, labels=of("a"), **more)
    await world.settle(5)
    for name in names:
        runs(world, name)


def test_a_pod_whose_policy_is_never_waits_and_evicts_nobody() -> None:
    async def story(world: World) -> None:
        await full(world, "low")
        world.pod("high", labels=of("a"), priority=100, preemptionPolicy="Never")
        await world.settle(30)
        assert world.evicted() == []
        world.pod("higher", labels=of("a"), priority=200)
        await world.settle(5)
        assert world.evicted() == ["low"], "another pod, whose policy lets it"
        world.delete("low")
        world.delete("higher")
        await world.settle(5)
        assert world.node_of("high") == "n"

    in_world(story)


def test_pods_that_were_bound_under_a_protected_class_stay_protected_when_it_is_so_no_more() -> None:
    async def story(world: World) -> None:
        add_class(world, "kept", preemptible="false")
        await full(world, "low", priorityClassName="kept")
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(30)
        await world.stop()
        world.start()
        await world.settle(40)
        assert world.evicted() == []
        label = {"metadata": {"labels": {PREEMPTIBLE: "true"}}}
        assert world.request("PATCH", f"{CLASSES}/kept", label) == 200
        await world.settle(40)
        assert world.evicted() == []

    in_world(story)


def test_a_class_that_does_not_say_clearly_whether_it_is_protected_keeps_its_pods_waiting() -> None:
    async def story(world: World) -> None:
        add_class(world, "odd", preemptible="no")
        world.node("n", gpus=1)
        world.pod("p", priorityClassName="odd")
        await world.settle(5)
        expected = (
            "PriorityClass odd, metadata.labels[gpufleet.io/preemptible]: not a choice, "
            "found 'no'; expected true or false"
        )
        assert world.why("p") == expected
        world.request("PATCH", f"{CLASSES}/odd", {"metadata": {"labels": {PREEMPTIBLE: "false"}}})
        await world.settle(5)
        assert world.node_of("p") == "n"

    in_world(story)


@pytest.mark.parametrize("later", ["as it is", None, "yesterday, I think"])
def test_a_victim_that_has_just_saved_its_work_goes_before_its_equals(later: str | None) -> None:
    async def story(world: World) -> None:
        await full(world, "long", "saved")
        await world.settle(100)
        says_it_saved(world, "saved", time_in(world))
        await world.settle(5)
        if later != "as it is":
            says_it_saved(world, "saved", later)
            await world.settle(5)
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(5)
        assert world.evicted() == ["saved"]

    in_world(story)


@pytest.mark.parametrize("restarted", [False, True])
def test_the_minimum_run_time_counts_from_when_the_node_began_to_run_the_pod(restarted: bool) -> None:
    async def story(world: World) -> None:
        await full(world, "low", after="60s")
        status = {"status": {"startTime": time_in(world, 60)}}
        assert world.request("PATCH", f"{PODS}/low/status", status) == 200
        await world.settle(5)
        if restarted:
            await world.stop()
            world.start()
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(100)
        assert not is_leaving(world, "low")
        await world.settle(30)
        assert is_leaving(world, "low")

    in_world(story)


def test_a_service_of_the_cluster_is_safe_whatever_its_class_says_later() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "team", 1)
        add_class(world, "of-services", preemptible="false")
        cores = {"cpu": "40"}
        others = {"schedulerName": "other", "nodeName": "n", "priorityClassName": "of-services"}
        world.pod("service", gpus=0, resources=cores, **others)
        await world.settle(5)
        label = {"metadata": {"labels": {PREEMPTIBLE: "true"}}}
        assert world.request("PATCH", f"{CLASSES}/of-services", label) == 200
        await world.settle(5)
        world.pod("needs-its-cores", labels=of("team"), resources=cores)
        await world.settle(20)
        assert world.evicted() == []

    in_world(story)
