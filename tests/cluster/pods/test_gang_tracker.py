"""A gang is bound whole or not at all, and what is half bound is completed or taken back."""

from typing import Any

import pytest

from gpufleet.simulation.admission_policies import SCHEDULER_USER
from tests.scheduler.test_eviction_planner import budget, is_leaving, runs
from tests.scheduler.world import World, in_world

CONTROLLED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


def member(world: World, name: str, minimum: int, **more: Any) -> None:
    """A pod of the gang "train"."""
    annotations = {
        "gpufleet.io/gang": "train",
        "gpufleet.io/gang-min-members": str(minimum),
        **more.pop("annotations", {}),
    }
    world.pod(name, annotations=annotations, **more)


def bound(world: World, *names: str) -> list[str]:
    return [name for name in names if world.node_of(name)]


def bind_by_an_older_leader(world: World, name: str, node: str) -> None:
    """A bind of epoch 0, before anybody leads."""
    uid = world.get(name)["metadata"]["uid"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": uid, "annotations": {"gpufleet.io/grant": '{"v":1,"epoch":0}'}},
        "target": {"kind": "Node", "name": node},
    }
    world.server.policies.fence = False
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    assert world.request("POST", path, body, SCHEDULER_USER) == 201
    world.server.policies.fence = True


def test_a_gang_that_fits_is_bound_whole() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.node("b", gpus=2)
        for number in range(4):
            member(world, f"w{number}", 4)
        await world.settle()
        assert len(bound(world, "w0", "w1", "w2", "w3")) == 4

    in_world(story)


def test_a_gang_that_does_not_fit_is_not_bound_at_all_and_every_member_is_told() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=3)
        for number in range(4):
            member(world, f"w{number}", 4)
        await world.settle()
        assert bound(world, "w0", "w1", "w2", "w3") == []
        assert all("needs 4 members at once" in world.why(f"w{number}") for number in range(4))

    in_world(story)


def test_a_gang_waits_for_members_that_come_late() -> None:
    async def story(world: World) -> None:
        world.node("a")
        member(world, "w0", 2)
        await world.settle()
        assert bound(world, "w0") == []
        member(world, "w1", 2)
        await world.settle()
        assert bound(world, "w0", "w1") == ["w0", "w1"]

    in_world(story)


def test_members_that_contradict_each_other_are_set_aside_and_told_why() -> None:
    async def story(world: World) -> None:
        world.node("a")
        member(world, "w0", 2)
        member(world, "w1", 3)
        world.pod("bystander")
        await world.settle()
        assert bound(world, "w0", "w1") == []
        assert "differ" in world.why("w0")
        assert "differ" in world.why("w1")
        assert world.node_of("bystander") == "a"

    in_world(story)


def test_a_member_that_succeeded_is_not_waited_for_again() -> None:
    async def story(world: World) -> None:
        world.node("a")
        member(world, "w0", 2)
        member(world, "w1", 2)
        await world.settle()
        world.finish("w0")
        world.finish("w1", "Failed")
        member(world, "w2", 2)
        await world.settle()
        assert bound(world, "w2") == ["w2"]

    in_world(story)


def test_a_new_leader_completes_a_half_bound_gang_before_anything_else() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=2, devices=False)
        member(world, "w0", 2)
        world.pod("other", priority=1000)
        member(world, "w1", 2)
        bind_by_an_older_leader(world, "w0", "a")
        world.start()
        await world.settle(40.0)
        assert bound(world, "w1", "other") == ["w1"]

    in_world(story)


def test_a_gang_that_a_new_leader_completes_past_its_deadline_is_left_alone() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=2, devices=False)
        member(world, "w0", 2, ownerReferences=CONTROLLED)
        member(world, "w1", 2, ownerReferences=CONTROLLED)
        bind_by_an_older_leader(world, "w0", "a")
        await world.clock.sleep(700.0)
        world.start()
        await world.settle(100.0)
        assert bound(world, "w0", "w1") == ["w0", "w1"]
        assert world.evicted() == []

    in_world(story)


def test_past_its_deadline_a_gang_that_a_node_refuses_to_complete_is_taken_back() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=2, devices=False)
        member(world, "w0", 2, ownerReferences=CONTROLLED)
        member(world, "w1", 2, ownerReferences=CONTROLLED)
        bind_by_an_older_leader(world, "w0", "a")
        await world.clock.sleep(700.0)
        world.loses("POST", "/w1/binding", times=1000)
        world.start()
        await world.settle(100.0)
        assert bound(world, "w0", "w1") == ["w0"]
        assert world.evicted() == ["w0"]

    in_world(story)


def test_past_its_deadline_members_with_a_controller_are_evicted() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=1, devices=False)
        member(world, "w0", 2, ownerReferences=CONTROLLED)
        member(world, "w1", 2, ownerReferences=CONTROLLED)
        bind_by_an_older_leader(world, "w0", "a")
        world.start()
        await world.settle(50.0)
        assert "deletionTimestamp" not in world.get("w0")["metadata"]
        await world.settle(30.0)
        evicted = world.get("w0")
        assert "deletionTimestamp" in evicted["metadata"]
        marks = [one for one in evicted["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert marks[0]["status"] == "True"
        assert any("1 of 2 members placed" in note for note in world.events("GangIncomplete"))

    in_world(story, gang_deadline_s=60.0)


def test_past_its_deadline_a_bare_member_stays_and_says_why() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=1, devices=False)
        member(world, "w0", 2)
        member(world, "w1", 2)
        bind_by_an_older_leader(world, "w0", "a")
        world.start()
        await world.settle(120.0)
        assert "deletionTimestamp" not in world.get("w0")["metadata"]
        assert any("no controller would replace it" in note for note in world.events("GangIncomplete"))

    in_world(story, gang_deadline_s=60.0)


def test_a_bare_member_whose_owner_allows_it_is_deleted() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=1, devices=False)
        allowed = {"gpufleet.io/delete-incomplete-gang": "true"}
        member(world, "w0", 2, annotations=allowed)
        member(world, "w1", 2, annotations=allowed)
        bind_by_an_older_leader(world, "w0", "a")
        world.start()
        await world.settle(120.0)
        assert "deletionTimestamp" in world.get("w0")["metadata"]

    in_world(story, gang_deadline_s=60.0)


def test_a_gang_that_must_share_a_rack_gets_one_rack() -> None:
    async def story(world: World) -> None:
        for number in range(4):
            world.node(f"n{number}", gpus=1, labels={"example.com/rack": f"r{number // 2}"})
        world.pod("blocker", nodeSelector={"example.com/rack": "r0"})
        await world.settle()
        two_in_one_rack(world)
        await world.settle()
        assert sorted(world.node_of(f"w{number}") for number in range(2)) == ["n2", "n3"]

    in_world(story)


def two_in_one_rack(world: World) -> None:
    """A gang of two that wants to be in one rack."""
    world.add(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            },
        }
    )
    for number in range(2):
        world.pod(f"w{number}", schedulingGroup={"podGroupName": "train"})


def test_racks_of_one_name_in_two_zones_are_two_racks() -> None:
    async def story(world: World) -> None:
        for zone in ("x", "y"):
            labels = {"example.com/rack": "r1", "topology.kubernetes.io/zone": zone}
            world.node(f"n-{zone}", gpus=1, labels=labels)
        two_in_one_rack(world)
        await world.settle()
        assert bound(world, "w0", "w1") == []
        world.node("m-y", gpus=1, labels=labels)
        await world.settle()
        assert sorted(world.node_of(name) for name in ("w0", "w1")) == ["m-y", "n-y"]

    in_world(story)


def test_racks_without_a_zone_and_nodes_without_a_rack_do_no_harm() -> None:
    async def story(world: World) -> None:
        world.node("zoned", gpus=1, labels={"topology.kubernetes.io/zone": "x"})
        for number in range(2):
            world.node(f"n{number}", gpus=1, labels={"example.com/rack": "r1"})
        two_in_one_rack(world)
        await world.settle()
        assert sorted(world.node_of(name) for name in ("w0", "w1")) == ["n0", "n1"]

    in_world(story)


def test_a_gang_that_ran_for_long_and_loses_a_member_has_time_to_get_another() -> None:
    async def story(world: World) -> None:
        world.node("a")
        for number in range(3):
            member(world, f"w{number}", 3, ownerReferences=CONTROLLED)
        await world.settle(700.0)
        world.delete("w1")
        await world.settle(3.0)
        member(world, "w3", 3, ownerReferences=CONTROLLED)
        await world.settle(60.0)
        assert bound(world, "w0", "w2", "w3") == ["w0", "w2", "w3"]
        assert world.evicted() == []

    in_world(story)


def that_ran_and_lost_a_member(world: World, **more: Any) -> None:
    world.node("a")
    for number in range(3):
        member(world, f"w{number}", 3, ownerReferences=CONTROLLED, **more)


async def lose_a_member(world: World) -> None:
    await world.settle(700.0)
    assert len(bound(world, "w0", "w1", "w2")) == 3
    world.delete("w1")


def test_a_gang_that_lost_a_member_for_good_is_taken_back_after_its_grace_period() -> None:
    async def story(world: World) -> None:
        that_ran_and_lost_a_member(world)
        await lose_a_member(world)
        await world.settle(50.0)
        assert world.evicted() == []
        await world.settle(30.0)
        assert world.evicted() == ["w0", "w2"]

    in_world(story)


@pytest.mark.parametrize("key", ["gpufleet.io/gang-stale-after", "kai.scheduler/staleness-grace-period"])
def test_a_gang_may_say_how_long_it_can_be_short_of_members(key: str) -> None:
    async def story(world: World) -> None:
        that_ran_and_lost_a_member(world, annotations={key: "20m"})
        await lose_a_member(world)
        await world.settle(1150.0)
        assert world.evicted() == []
        await world.settle(100.0)
        assert world.evicted() == ["w0", "w2"]

    in_world(story)


def test_a_gang_that_can_always_be_short_of_members_is_never_taken_back() -> None:
    async def story(world: World) -> None:
        that_ran_and_lost_a_member(world, annotations={"gpufleet.io/gang-stale-after": "-1"})
        await lose_a_member(world)
        await world.settle(900.0)
        assert world.evicted() == []

    in_world(story)


def test_where_the_grace_period_is_switched_off_gangs_that_ran_go_on() -> None:
    async def story(world: World) -> None:
        that_ran_and_lost_a_member(world)
        await lose_a_member(world)
        await world.settle(900.0)
        assert world.evicted() == []

    in_world(story, stale_gang_s=-1.0)


def test_a_gang_that_is_taken_back_gives_no_member_the_place_of_another_that_ends() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=3)
        for number in range(3):
            member(world, f"w{number}", 3, ownerReferences=CONTROLLED)
        await world.settle()
        world.delete("w0")
        world.pod("other", priority=1000)
        await world.settle(3.0)
        member(world, "w3", 3, ownerReferences=CONTROLLED)
        await world.settle(80.0)
        assert world.evicted() == ["w1", "w2"]
        world.delete("w1")
        await world.settle(3.0)
        member(world, "w4", 3, ownerReferences=CONTROLLED)
        await world.settle(3.0)
        world.delete("w2")
        member(world, "w5", 3, ownerReferences=CONTROLLED)
        await world.settle(200.0)
        assert bound(world, "w3", "w4", "w5") == []
        world.delete("other")
        await world.settle()
        assert bound(world, "w3", "w4", "w5") == ["w3", "w4", "w5"]
        assert world.evicted() == ["w1", "w2"]

    in_world(story)


def test_a_gang_that_a_budget_keeps_from_being_taken_back_is_joined_only_when_it_becomes_whole() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=3)
        for number in range(3):
            labels = {"app": f"w{number}"}
            member(world, f"w{number}", 3, labels=labels, ownerReferences=CONTROLLED)
        budget(world, "keeps", 0, app="w1")
        await world.settle()
        runs(world, "w1")
        world.delete("w0")
        world.pod("other", priority=1000)
        await world.settle(3.0)
        member(world, "w3", 3, ownerReferences=CONTROLLED)
        await world.settle(80.0)
        assert is_leaving(world, "w2")
        assert not is_leaving(world, "w1")
        world.delete("w2")
        await world.settle(100.0)
        assert bound(world, "w3") == []
        world.delete("other")
        member(world, "w4", 3, ownerReferences=CONTROLLED)
        await world.settle()
        assert bound(world, "w1", "w3", "w4") == ["w1", "w3", "w4"]

    in_world(story)


def test_a_minimum_that_is_raised_takes_nothing_from_those_who_run() -> None:
    def group(minimum: int) -> dict[str, Any]:
        return {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"minMember": minimum},
        }

    async def story(world: World) -> None:
        world.node("a")
        world.add(group(2))
        for number in range(2):
            labels = {"scheduling.x-k8s.io/pod-group": "train"}
            world.pod(f"w{number}", labels=labels, ownerReferences=CONTROLLED)
        await world.settle()
        assert bound(world, "w0", "w1") == ["w0", "w1"]
        path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups/train"
        assert world.request("PATCH", path, {"spec": {"minMember": 5}}) == 200
        await world.settle(700.0)
        assert bound(world, "w0", "w1") == ["w0", "w1"]
        assert world.evicted() == []

    in_world(story)
