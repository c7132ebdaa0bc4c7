"""What a pod was bound with holds until it is placed anew: later words may only shorten or weaken it."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpufleet.simulation.admission_policies import SCHEDULER_USER
from tests.explain.test_explain import answer_in
from tests.scheduler.test_eviction_planner import (
    QUEUES,
    add_queue,
    budget,
    ended,
    is_leaving,
    of,
    runs,
    two_teams,
)
from tests.scheduler.test_overtime import started
from tests.scheduler.test_reservations import change_leaders
from tests.scheduler.world import Object, World, in_world

PODS = "/api/v1/namespaces/default/pods"
RESTARTS = pytest.mark.parametrize("restarts", [False, True])


def edit(world: World, name: str, *, labels: Object | None = None, **annotations: str | None) -> None:
    """The owner of a pod writes other words on it; a key names its annotation of ours, None takes it away."""
    say(world, name, labels or {}, annotations)


def say(world: World, name: str, labels: Object, annotations: Mapping[str, str | None]) -> None:
    ours = {f"gpufleet.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"annotations": ours, "labels": labels}
    assert world.request("PATCH", f"{PODS}/{name}", {"metadata": metadata}) == 200


def in_queue(name: str) -> Object:
    return {"gpufleet.io/queue": name}


def priority_class(world: World, name: str, *, preemptible: str) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 0}
    world.add({**kind, "metadata": {"name": name, "labels": {"gpufleet.io/preemptible": preemptible}}})


async def settle(world: World, *, restarts: bool) -> None:
    """Some time, with another leader at its end where the story is told twice."""
    await world.settle(10)
    if restarts:
        await change_leaders(world)


# Queue, priority and protection.


def words_of_queue(world: World, how: str) -> None:
    """Say of the running pods that they are another queue's."""
    if how == "label":
        for name in ("a1", "a2"):
            edit(world, name, labels=in_queue("elsewhere"))
    elif how == "namespace":
        labels = {"metadata": {"labels": in_queue("elsewhere")}}
        assert world.request("PATCH", "/api/v1/namespaces/default", labels) == 200
    else:
        for name in ("a1", "a2"):
            edit(world, name, labels={"gpufleet.io/queue": None, "kai.scheduler/queue": "elsewhere"})


@RESTARTS
@pytest.mark.parametrize("how", ["label", "another key", "namespace"])
@pytest.mark.parametrize("other", [True, False], ids=["known", "unknown"])
def test_who_runs_is_counted_in_the_queue_it_was_bound_in(how: str, other: bool, restarts: bool) -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=8)
        for name in ("a", *(["elsewhere"] if other else [])):
            quota = {"resource": "gpu", "nominal": 2, "hardLimit": 2}
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
            world.add(
                {**kind, "metadata": {"name": name}, "spec": {"quotas": [quota], "reserveAfter": "Never"}}
            )
        by_namespace = how == "namespace"
        if by_namespace:
            named = {"metadata": {"labels": in_queue("a")}}
            assert world.request("PATCH", "/api/v1/namespaces/default", named) == 200
        for name in ("a1", "a2"):
            world.pod(name, labels={} if by_namespace else in_queue("a"))
        await world.settle(10)
        words_of_queue(world, how)
        await settle(world, restarts=restarts)
        world.pod("a3", labels=in_queue("a"))
        await world.settle(10)
        assert world.node_of("a3") == ""
        world.finish("a1")
        await world.settle(10)
        assert world.node_of("a3") == "n"

    in_world(story)


@RESTARTS
def test_a_class_that_is_protected_later_protects_nobody_who_runs(restarts: bool) -> None:
    async def story(world: World) -> None:
        priority_class(world, "plain", preemptible="true")
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("low", labels=of("a"), priority=0, priorityClassName="plain")
        await world.settle(5)
        runs(world, "low")
        path = "/apis/scheduling.k8s.io/v1/priorityclasses/plain"
        protected = {"metadata": {"labels": {"gpufleet.io/preemptible": "false"}}}
        assert world.request("PATCH", path, protected) == 200
        await settle(world, restarts=restarts)
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(10)
        assert is_leaving(world, "low")

    in_world(story)


@RESTARTS
@pytest.mark.parametrize("deleted", [True, False])
def test_who_was_bound_as_protected_stays_so(deleted: bool, restarts: bool) -> None:
    async def story(world: World) -> None:
        priority_class(world, "kept", preemptible="false")
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("low", labels=of("a"), priority=0, priorityClassName="kept")
        await world.settle(5)
        runs(world, "low")
        path = "/apis/scheduling.k8s.io/v1/priorityclasses/kept"
        if deleted:
            assert world.request("DELETE", path) == 200
        else:
            assert (
                world.request("PATCH", path, {"metadata": {"labels": {"gpufleet.io/preemptible": None}}})
                == 200
            )
        await settle(world, restarts=restarts)
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(20)
        assert world.evicted() == []

    in_world(story)


# How long it runs.


@RESTARTS
@pytest.mark.parametrize("later", ["10h", None, "soon"])
def test_a_limit_to_its_run_time_is_not_taken_back(later: str | None, restarts: bool) -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("long", labels=of("a"), annotations={"gpufleet.io/run-time-max": "10m"})
        await world.settle(10)
        started(world, "long")
        edit(world, "long", run_time_max=later)
        await settle(world, restarts=restarts)
        await world.settle(650)
        assert is_leaving(world, "long")

    in_world(story)


def test_a_shorter_limit_counts_at_once() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("long", labels=of("a"), annotations={"gpufleet.io/run-time-max": "1h"})
        await world.settle(10)
        started(world, "long")
        edit(world, "long", run_time_max="2m")
        await world.settle(130)
        assert world.evicted() == ["long"]

    in_world(story)


@RESTARTS
def test_a_start_that_is_dated_later_gains_little(restarts: bool) -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("long", labels=of("a"), annotations={"gpufleet.io/run-time-max": "10m"})
        await world.settle(10)
        status = {"status": {"phase": "Running", "startTime": "2999-01-01T00:00:00Z"}}
        assert world.request("PATCH", f"{PODS}/long/status", status) == 200
        await settle(world, restarts=restarts)
        await world.settle(1300)
        assert world.evicted() == ["long"]

    in_world(story)


# Promises behind a reservation.


def reserving_team(world: World) -> None:
    """A queue whose work reserves at once, and a node with two GPUs."""
    add_queue(world, "team", reserveAfter="0s")
    world.node("n", gpus=2)


async def a_seat_behind_a_reservation(world: World, **annotations: str) -> None:
    """Of two GPUs one is free; larger work waits for the other, and a visitor is let in with these words."""
    reserving_team(world)
    world.pod("old", labels=in_queue("team"), annotations={"gpufleet.io/run-time": "20m"})
    await world.settle(5)
    started(world, "old")
    world.pod("large", gpus=2, labels=in_queue("team"))
    await world.settle(5)
    ours = {f"gpufleet.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    world.pod("visitor", labels={**in_queue("team"), "app": "visitor"}, annotations=ours)
    await world.settle(10)
    assert world.node_of("visitor") == "n"
    started(world, "visitor")
    await world.settle(5)


async def the_holder_starts(world: World) -> None:
    """All but the visitor is gone: it goes too, and who holds the reservation has its place."""
    world.finish("old")
    await world.settle(15)
    assert is_leaving(world, "visitor")
    ended(world, "visitor")
    await world.settle(10)
    assert world.node_of("large") == "n"


def later_words(world: World, how: str) -> None:
    """How a tenant tries to keep a place that it was let into as a guest."""
    match how:
        case "taken back":
            edit(world, "visitor", interruptible=None)
        case "denied":
            edit(world, "visitor", interruptible="false")
        case "nonsense":
            edit(world, "visitor", interruptible="perhaps")
        case "a run time":
            edit(world, "visitor", interruptible=None, run_time="10h")
        case "another queue":
            edit(world, "visitor", labels=in_queue("elsewhere"))
        case "a budget":
            runs(world, "visitor")
            budget(world, "keep", 0, app="visitor")
        case "two budgets":
            runs(world, "visitor")
            budget(world, "keep", 1, app="visitor")
            budget(world, "also", 1, app="visitor")
        case "a start before the reservation":
            status = {"status": {"phase": "Running", "startTime": "2001-01-01T00:00:00Z"}}
            assert world.request("PATCH", f"{PODS}/visitor/status", status) == 200


HOW = [
    "taken back",
    "denied",
    "nonsense",
    "a run time",
    "another queue",
    "a budget",
    "two budgets",
    "a start before the reservation",
]


@RESTARTS
@pytest.mark.parametrize("how", HOW)
def test_who_came_as_a_guest_goes_as_one(how: str, restarts: bool) -> None:
    async def story(world: World) -> None:
        await a_seat_behind_a_reservation(world, interruptible="true")
        later_words(world, how)
        await settle(world, restarts=restarts)
        assert not is_leaving(world, "visitor")
        await the_holder_starts(world)

    in_world(story)


@RESTARTS
@pytest.mark.parametrize("later", ["", "10h", "a budget"])
def test_who_promised_to_have_ended_is_ended_for_the_holder(later: str, restarts: bool) -> None:
    """Its promise ends before the other work does, and is not kept."""

    async def story(world: World) -> None:
        await a_seat_behind_a_reservation(world, run_time="10m")
        if later == "a budget":
            runs(world, "visitor")
            budget(world, "keep", 0, app="visitor")
        elif later:
            edit(world, "visitor", run_time=later)
        await settle(world, restarts=restarts)
        world.finish("old")
        await world.settle(200)
        assert not is_leaving(world, "visitor"), "it may run for as long as it said"
        await world.settle(450)
        assert is_leaving(world, "visitor")
        (note,) = world.events("RunTimePromised")
        promise = "it said that it runs for at most 10m and so came before pod default/large of queue team"
        assert note == f"{promise}, which can start where it runs"
        ended(world, "visitor")
        await world.settle(10)
        assert world.node_of("large") == "n"

    in_world(story)


def test_who_is_overdue_runs_on_until_the_holder_can_start() -> None:
    async def story(world: World) -> None:
        await a_seat_behind_a_reservation(world, run_time="10m")
        await world.settle(900)
        assert world.evicted() == []
        await the_holder_starts(world)

    in_world(story)


# Checkpoints.


@pytest.mark.parametrize("later", [None, "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "yesterday"])
def test_a_checkpoint_is_not_taken_back_and_one_to_come_is_now(later: str | None) -> None:
    """Of two equals the one that would lose the least goes."""

    async def story(world: World) -> None:
        await two_teams(world)
        await world.settle(600)
        edit(world, "b1", checkpointed_at=world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        await world.settle(10)
        edit(world, "b1", checkpointed_at=later)
        await world.settle(10)
        world.pod("a1", labels=of("a"))
        await world.settle(10)
        assert world.evicted() == ["b1"]

    in_world(story)


def test_a_checkpoint_that_is_moved_into_the_future_is_not_lost_with_the_scheduler() -> None:
    async def story(world: World) -> None:
        await two_teams(world)
        await world.settle(600)
        edit(world, "b1", checkpointed_at="2999-01-01T00:00:00Z")
        await world.settle(10)
        await world.stop()
        world.start()
        await world.settle(60)
        world.pod("a1", labels=of("a"))
        await world.settle(10)
        assert world.evicted() == ["b1"]

    in_world(story)


# What people are told.


def test_an_edit_that_does_not_count_is_told_once_and_explained() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("p", labels=in_queue("a"), annotations={"gpufleet.io/run-time": "1h"})
        await world.settle(10)
        runs(world, "p")
        for length in ("10h", "11h", "12h"):
            edit(world, "p", run_time=length)
            await world.settle(60)
        note = "it was bound with a run time of 1h; it says {} now. That counts when the pod is placed anew"
        assert world.events("EditIgnored") == [note.format("10h")]
        notes = (await answer_in(world, "p")).notes
        assert note.format("12h") in notes

    in_world(story)


def test_a_shorter_run_time_counts_and_nobody_is_warned() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("p", labels=in_queue("a"), annotations={"gpufleet.io/run-time": "1h"})
        await world.settle(10)
        edit(world, "p", run_time="10m", interruptible="true")
        await world.settle(60)
        assert world.events("EditIgnored") == []
        assert (await answer_in(world, "p")).notes == ()

    in_world(story)


def test_the_grant_says_what_the_pod_was_bound_with() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        words = {"gpufleet.io/run-time": "1h", "gpufleet.io/interruptible": "true"}
        world.pod("p", labels=in_queue("a"), annotations=words, priority=7)
        await world.settle(10)
        grant: Any = world.grant_of("p")
        assert grant["v"] == 2
        terms = grant["terms"]
        told = {key: terms[key] for key in ("queue", "priority", "runTimeUs", "interruptible")}
        assert told == {"queue": "a", "priority": 7, "runTimeUs": 3600 * 10**6, "interruptible": True}
        assert "gang" not in terms

    in_world(story)


def test_a_pod_with_a_grant_of_the_version_before_is_what_it_says() -> None:
    """Nothing is known of what let it in; so it was read before, until it is placed anew."""

    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 1)
        add_queue(world, "b", 1)
        first = '{"v":1,"epoch":0,"containers":{"main":[{"id":"GPU-n-0","kind":"whole","gpuMilli":1000}]}}'
        pod = {"apiVersion": "v1", "kind": "Pod"}
        container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        metadata = {"name": "p", "namespace": "default", "labels": in_queue("a")}
        metadata["annotations"] = {"gpufleet.io/grant": first}
        spec = {"schedulerName": "gpufleet", "nodeName": "n", "containers": [container]}
        world.server.add({**pod, "metadata": metadata, "spec": spec}, user=SCHEDULER_USER)
        await world.settle(10)
        edit(world, "p", labels=in_queue("b"))
        await world.settle(10)
        world.pod("a1", labels=in_queue("a"))
        await world.settle(10)
        assert world.node_of("a1") == "n"

    in_world(story)


def test_what_a_queue_says_of_itself_still_acts_on_what_runs() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("p", labels=in_queue("a"), annotations={"gpufleet.io/run-time-max": "10h"})
        await world.settle(10)
        started(world, "p")
        assert world.request("PATCH", f"{QUEUES}/a", {"spec": {"runTimeMax": "2m"}}) == 200
        await world.settle(150)
        assert world.evicted() == ["p"]

    in_world(story)
