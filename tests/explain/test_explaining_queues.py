"""Beside the cause: where a pod stands in its queue, who goes before, and what its namespace may have."""

from typing import Any

from gpufleet.explain.namespace_limits import (
    LimitItem,
    LimitRange,
    LimitRangeSpec,
    QuotaSpec,
    QuotaStatus,
    ResourceQuota,
    quota_notes,
    range_notes,
)
from gpufleet.explain.owners import (
    Owned,
    Owner,
    OwnerCondition,
    OwnerSpec,
    OwnerStatus,
    why_no_pods,
)
from gpufleet.kube.objects.metadata import Metadata
from tests.explain.causes.queues import add_queue, in_queue
from tests.explain.test_explain import answer_in
from tests.scheduler.world import World, in_world

NEVER_COUNTED = (
    "ResourceQuota team limits nothing by limits.nvidia.com/gpu: the API server counts extended resources "
    "only as requests.nvidia.com/gpu; write that instead"
)


def test_a_position_counts_those_of_the_same_queue_by_priority_and_age() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        add_queue(world, "team", {"nominal": 2})
        add_queue(world, "other", {"nominal": 8})
        in_queue(world, "team", "runs", 2, nodeName="a")
        in_queue(world, "other", "elsewhere", priority=100)
        in_queue(world, "team", "first")
        await world.settle(2)
        in_queue(world, "team", "p")
        in_queue(world, "team", "urgent", priority=3)
        await world.settle()
        answer = await answer_in(world, "p")
        position = "it is number 3 of 3 in queue team, behind default/urgent and default/first"
        assert position in answer.notes

    in_world(story)


def test_who_has_the_smaller_share_goes_before() -> None:
    async def story(world: World) -> None:
        world.node("a")
        add_queue(world, "root", {"nominal": 8})
        for name, gpus in (("greedy", 6), ("modest", 2)):
            add_queue(world, name, parent="root")
            in_queue(world, name, f"{name}-runs", gpus, nodeName="a")
        in_queue(world, "greedy")
        in_queue(world, "modest", "theirs")
        await world.settle()
        answer = await answer_in(world, "p")
        assert "before queue greedy goes modest (dominant share 0.25 against 0.75)" in answer.notes
        assert not any("goes" in note for note in (await answer_in(world, "theirs")).notes)

    in_world(story)


def test_who_stays_within_what_it_is_owed_goes_before_whoever_would_borrow() -> None:
    async def story(world: World) -> None:
        world.node("a")
        add_queue(world, "root", {"nominal": 4})
        add_queue(world, "owed", {"nominal": 4}, parent="root", preemption={"reclaim": "Never"})
        add_queue(world, "borrows", parent="root", priority=9)
        in_queue(world, "borrows", "runs", 8, nodeName="a")
        in_queue(world, "borrows")
        in_queue(world, "owed", "theirs")
        await world.settle()
        answer = await answer_in(world, "p")
        assert "before queue borrows goes owed, whose work stays within what it is owed" in answer.notes

    in_world(story)


def team(hard: dict[str, Any], used: dict[str, Any]) -> ResourceQuota:
    return ResourceQuota(Metadata(name="team"), QuotaSpec(hard), QuotaStatus(hard, used))


def test_a_quota_of_the_api_server_tells_its_figures_and_what_it_never_counts() -> None:
    hard = {"requests.nvidia.com/gpu": "8", "limits.nvidia.com/gpu": "4", "pods": "10", "configmaps": "3"}
    used = {"requests.nvidia.com/gpu": "6", "pods": "2"}
    assert quota_notes(team(hard, used)) == [
        "ResourceQuota team of the namespace: pods 2 of 10, requests.nvidia.com/gpu 6 of 8 in use",
        NEVER_COUNTED,
    ]
    # What is counted for limits of the host is no mistake.
    assert quota_notes(team({"limits.cpu": "4"}, {})) == [
        "ResourceQuota team of the namespace: limits.cpu 0 of 4 in use"
    ]
    assert quota_notes(team({"configmaps": "3"}, {})) == []


def test_a_limit_range_tells_what_each_may_ask_for() -> None:
    item = LimitItem("Container", max={"nvidia.com/gpu": "2"}, default={"cpu": "500m"})
    assert range_notes(LimitRange(Metadata(name="small"), LimitRangeSpec((item,)))) == [
        "LimitRange small: each container nvidia.com/gpu at most 2, cpu unless said 500m"
    ]


def test_the_limits_of_a_namespace_stand_beside_the_answer() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        spec = {"hard": {"limits.nvidia.com/gpu": "1"}}
        kind = {"apiVersion": "v1", "kind": "ResourceQuota"}
        world.add({**kind, "metadata": {"name": "team", "namespace": "default"}, "spec": spec})
        world.pod("p", gpus=2)
        world.pod("runs", gpus=1)
        await world.settle()
        assert (await answer_in(world, "p")).notes[-1] == NEVER_COUNTED
        assert NEVER_COUNTED not in (await answer_in(world, "runs")).notes

    in_world(story)


def test_a_refusal_that_no_event_tells_any_more_is_kept_by_the_replica_set() -> None:
    message = (
        'pods "web-x" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=1, limited: requests.nvidia.com/gpu=2"
    )
    refused = OwnerCondition("ReplicaFailure", "True", "FailedCreate", message)
    owner = Owner(Metadata(name="web"), OwnerSpec(replicas=1), OwnerStatus((refused,)))
    found = why_no_pods(Owned("replicaset", owner, frozenset()), 0)
    assert found.cause == "quota"
    assert "requests.nvidia.com/gpu: 1 of 2 are used, and a pod asks for 2" in found.why
