"""Malformed inputs that concern queues and gangs, in a cluster: the owner is told what is wrong, nobody else
notices, and what is mended runs.

The numbers are those of the list of malformed inputs; docs/malformed-inputs.md says which other tests there
are of each.
"""

from typing import Any

import pytest

from tests.scheduler.test_broken_objects import broken_pod, store
from tests.scheduler.test_queues import QUEUES, add_queue, condition, queue
from tests.scheduler.world import Object, World, in_world

KIND = ("gpufleet.io", "fleetqueues")
QUEUE = "gpufleet.io/queue"


def stored_queue(world: World, name: str, spec: Any, **more: Any) -> None:
    """A FleetQueue from before its definition was as strict."""
    value = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "metadata": {"name": name}, **more}
    value["metadata"] = {"uid": f"uid-{name}", "generation": 1, **value["metadata"]}
    store(world, KIND, "", value if spec is ABSENT else {**value, "spec": spec})


ABSENT = object()


def gang_member(world: World, name: str, size: str, **annotations: str) -> None:
    """A pod of the gang "train" that says how large it is."""
    own = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": size}
    world.pod(name, annotations=own | annotations)


def in_queue(world: World, name: str, team: str, gpus: int = 1) -> None:
    """A pod of a team."""
    world.pod(name, gpus=gpus, labels={QUEUE: team})


@pytest.mark.parametrize("size", ["0", "-1", "2.5", "four", "99999999999"])
def test_input_15_a_gang_of_no_size_waits_whole_and_is_told(size: str) -> None:
    async def story(world: World) -> None:
        world.node("n")
        for name in ("w0", "w1"):
            gang_member(world, name, size)
        world.pod("good")
        await world.settle()
        for name in ("w0", "w1"):
            assert world.node_of(name) == ""
            assert "gpufleet.io/gang-min-members" in world.why(name)
            assert size in world.why(name)
        assert world.node_of("good") == "n"
        for name in ("w0", "w1"):
            world.delete(name)
            gang_member(world, name, "2")
        await world.settle()
        assert (world.node_of("w0"), world.node_of("w1")) == ("n", "n")

    in_world(story)


def test_input_15_a_gang_larger_than_its_members_waits_for_them() -> None:
    async def story(world: World) -> None:
        world.node("n")
        for name in ("w0", "w1"):
            gang_member(world, name, "3")
        world.pod("good")
        await world.settle()
        assert all("needs 3 members at once: 2 have arrived" in world.why(name) for name in ("w0", "w1"))
        assert world.node_of("good") == "n"
        gang_member(world, "w2", "3")
        await world.settle()
        assert [world.node_of(f"w{number}") for number in range(3)] == ["n"] * 3

    in_world(story)


def test_input_15_members_that_differ_stop_their_gang_alone() -> None:
    async def story(world: World) -> None:
        world.node("n")
        gang_member(world, "w0", "2")
        gang_member(world, "w1", "1")
        world.pod("good")
        await world.settle()
        for name in ("w0", "w1"):
            assert world.node_of(name) == ""
            assert "differ" in world.why(name)
            assert "min_members" in world.why(name)
        assert world.node_of("good") == "n"

    in_world(story)


@pytest.mark.parametrize("spec", [ABSENT, None, [], "words", 7, {"quotas": {"gpu": 8}}])
def test_input_38_a_queue_whose_spec_is_none_keeps_its_own_work_waiting(spec: Any) -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "good")
        stored_queue(world, "bad", spec)
        in_queue(world, "theirs", "bad")
        in_queue(world, "ours", "good")
        await world.settle()
        assert (world.node_of("ours"), world.node_of("theirs")) == ("n", "")
        assert "bad" in world.why("theirs")
        told = condition(world, "bad")
        assert (told["status"], told["reason"]) == ("False", "Malformed")
        assert "spec" in told["message"]
        stored_queue(world, "bad", {})
        await world.settle()
        assert world.node_of("theirs") == "n"

    in_world(story)


def test_input_39_a_status_that_a_user_wrote_gives_no_quota() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=4)
        forged = {
            "share": "0",
            "resources": [{"resource": "gpu", "used": "0", "borrowed": "-9"}],
            "conditions": [{"type": "Active", "status": "True", "reason": "Mine", "message": "yes"}],
        }
        add_queue(world, "a", quotas=[{"resource": "gpu", "nominal": 1}])
        for name in ("p0", "p1"):
            in_queue(world, name, "a")
        await world.settle()
        assert world.request("PATCH", f"{QUEUES}/a/status", {"status": forged}) == 200
        await world.settle()
        assert sorted((world.node_of("p0"), world.node_of("p1"))) == ["", "n"]
        assert queue(world, "a")["status"]["resources"][0]["used"] == "1"
        assert condition(world, "a")["reason"] == "InForce"

    in_world(story)


@pytest.mark.parametrize(
    "past",
    [
        7,
        [{"resource": "gpu", "atUs": -1, "used": 0, "value": "0", "area": "0"}],
        [{"resource": "gpu", "atUs": 0, "used": 0, "value": "9" * 99, "area": "0"}],
        [{"resource": "gpu", "atUs": 0, "used": 0, "value": "NaN", "area": "1e3"}],
        [{"resource": "no such thing", "atUs": 2**62, "used": 2**62, "value": "1", "area": "-1"}],
    ],
)
def test_input_39_a_past_that_a_user_wrote_stops_no_new_leader(past: Any) -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("n")
        stored_queue(world, "a", {"halfLife": "1h"}, status={"pastUse": past})
        in_queue(world, "p", "a")
        world.start()
        await world.settle()
        assert world.node_of("p") == "n"
        told = queue(world, "a")["status"].get("pastUse", [])
        assert all(0 <= one["used"] <= 1000 for one in told)

    in_world(story)


def test_input_40_a_queue_made_its_own_parent_stays_what_it_was() -> None:
    async def story(world: World) -> None:
        world.node("n")
        stored_queue(world, "a", {"quotas": [{"resource": "gpu", "nominal": 1}]})
        in_queue(world, "p0", "a")
        await world.settle()
        stored_queue(world, "a", {"parent": "a", "quotas": [{"resource": "gpu", "nominal": 8}]})
        in_queue(world, "p1", "a")
        world.pod("good")
        await world.settle()
        assert (world.node_of("p0"), world.node_of("p1")) == ("n", "")
        told = condition(world, "a")
        assert told["reason"] == "Malformed"
        assert told["message"].startswith("FleetQueue a, spec.parent: its own parent")

    in_world(story)


def test_input_41_work_below_a_parent_that_is_absent_waits_for_it() -> None:
    async def story(world: World) -> None:
        world.node("n")
        add_queue(world, "a", parent="research")
        add_queue(world, "good")
        in_queue(world, "p", "a")
        in_queue(world, "q", "good")
        await world.settle()
        assert (world.node_of("p"), world.node_of("q")) == ("", "n")
        assert "parent of queue a" in world.why("p")
        assert condition(world, "a")["reason"] == "ParentMissing"
        add_queue(world, "research")
        await world.settle()
        assert world.node_of("p") == "n"

    in_world(story)


@pytest.mark.parametrize(
    ("quota", "field"),
    [
        ({"nominal": -1}, "nominal"),
        ({"nominal": 1, "lendingLimit": 2}, "lendingLimit"),
        ({"nominal": 1, "borrowingLimit": -1}, "borrowingLimit"),
        ({"nominal": 1, "hardLimit": "-1"}, "hardLimit"),
        ({"nominal": "1e30"}, "nominal"),
    ],
)
def test_input_42_a_quota_that_cannot_be_leaves_the_last_good_one(quota: Object, field: str) -> None:
    await_mended = {"quotas": [{"resource": "gpu", "nominal": 2}]}
    bad_one(await_mended, {"quotas": [{"resource": "gpu", **quota}]}, f"spec.quotas[0].{field}")


@pytest.mark.parametrize("weight", [-1, "1e308", "NaN", "-0.5"])
def test_input_43_a_weight_that_cannot_be_leaves_the_last_good_one(weight: Any) -> None:
    good = {"quotas": [{"resource": "gpu", "nominal": 2}]}
    bad_one(good, {"weight": weight, "quotas": [{"resource": "gpu", "nominal": 8}]}, "spec.weight")


def bad_one(good: Object, bad: Object, field: str) -> None:
    """A queue of two GPUs gets a version that cannot be: it is told, and counts no more than before."""

    async def story(world: World) -> None:
        world.node("n")
        stored_queue(world, "a", good)
        await world.settle()
        stored_queue(world, "a", bad, metadata={"name": "a", "generation": 2})
        add_queue(world, "b")
        for number in range(3):
            in_queue(world, f"p{number}", "a")
        in_queue(world, "q", "b")
        await world.settle()
        told = condition(world, "a")
        assert told["reason"] == "Malformed"
        assert told["message"].startswith(f"FleetQueue a, {field}: ")
        assert "expected" in told["message"]
        assert sorted(world.node_of(f"p{number}") for number in range(3)) == ["", "n", "n"]
        assert world.node_of("q") == "n"

    in_world(story)


def test_input_43_weight_0_takes_only_what_is_idle() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=4)
        add_queue(world, "root", quotas=[{"resource": "gpu", "nominal": 4}])
        add_queue(world, "idle", parent="root", weight=0)
        add_queue(world, "team", parent="root")
        world.pod("holder", gpus=4)
        await world.settle()
        for number in range(4):
            in_queue(world, f"i{number}", "idle")
        await world.settle()
        for number in range(3):
            in_queue(world, f"t{number}", "team")
        await world.settle()
        world.finish("holder")
        await world.settle()
        assert all(world.node_of(f"t{number}") for number in range(3))
        assert sum(bool(world.node_of(f"i{number}")) for number in range(4)) == 1

    in_world(story)


def test_input_45_a_pod_in_two_groups_and_one_in_anothers_harm_only_themselves() -> None:
    async def story(world: World) -> None:
        world.node("n")
        kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        world.add({**kind, "metadata": {"name": "train", "namespace": "default"}, "spec": {"minMember": 2}})
        group = {"scheduling.x-k8s.io/pod-group": "train"}
        world.pod("two", labels=group, annotations={"scheduling.k8s.io/group-name": "other"})
        world.pod("foreign", annotations={"pod-group-name": "team-b/train"})
        for name in ("w0", "w1"):
            world.pod(name, labels=group)
        await world.settle()
        assert (world.node_of("two"), world.node_of("foreign")) == ("", "")
        assert "a pod in two groups" in world.why("two")
        assert "scheduling.k8s.io/group-name" in world.why("two")
        assert "a group of another namespace" in world.why("foreign")
        assert "team-b/train" in world.why("foreign")
        assert (world.node_of("w0"), world.node_of("w1")) == ("n", "n")

    in_world(story)


def test_input_47_a_queue_that_selects_by_ten_thousand_terms_selects_nothing() -> None:
    async def story(world: World) -> None:
        world.node("n")
        terms = [{"key": "team", "operator": "Exists"}] * 10_000
        add_queue(world, "default")
        stored_queue(world, "bad", {"namespaceSelector": {"matchExpressions": terms}, "state": "Held"})
        world.pod("p")
        await world.settle()
        assert world.node_of("p") == "n"
        assert condition(world, "bad")["message"].startswith(
            "FleetQueue bad, spec.namespaceSelector.matchExpressions: "
        )

    in_world(story)


def test_input_48_a_level_that_only_some_nodes_have_and_a_rack_of_one_name_in_two_zones() -> None:
    rack, zone = "example.com/rack", "topology.kubernetes.io/zone"
    near = {"kueue.x-k8s.io/podset-required-topology": rack}

    async def story(world: World) -> None:
        world.node("bare", gpus=8)
        world.node("x", gpus=1, labels={rack: "r1", zone: "x"})
        world.node("y", gpus=1, labels={rack: "r1", zone: "y"})
        for name in ("w0", "w1"):
            gang_member(world, name, "2", **near)
        world.pod("good")
        await world.settle()
        assert (world.node_of("w0"), world.node_of("w1")) == ("", "")
        assert world.node_of("good") != ""
        world.node("z", gpus=2, labels={rack: "r2", zone: "y"})
        await world.settle()
        assert (world.node_of("w0"), world.node_of("w1")) == ("z", "z")

    in_world(story)


ODD_TIMES = (
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2099-01-01T00:00:00Z",
    "2025-01-31T12:00:00",
    "2016-12-31T23:59:60Z",
)
"""The world's own time begins with 2026."""


def test_input_49_work_of_any_age_runs_and_what_is_from_the_future_comes_last() -> None:
    async def story(world: World) -> None:
        add_queue(world, "a")
        for number, moment in enumerate(ODD_TIMES):
            odd = {"creationTimestamp": moment, "labels": {QUEUE: "a"}}
            store(world, ("", "pods"), "default", broken_pod(f"p{number}", metadata=odd))
        in_queue(world, "now", "a")
        await world.settle()
        for gpus, expected in ((1, {0}), (2, {0, 4}), (3, {0, 3, 4})):
            world.node(f"n{gpus}", gpus=1)
            await world.settle()
            runs = {number for number in range(5) if world.node_of(f"p{number}")}
            assert runs == expected, "the older first"
        world.node("large", gpus=1)
        await world.settle()
        assert world.node_of("now") == "large", "before what is from the future"
        world.node("larger", gpus=8)
        await world.settle()
        assert all(world.node_of(f"p{number}") for number in range(5))

    in_world(story)


def test_input_50_a_generation_that_goes_back_counts_as_what_it_says_now() -> None:
    async def story(world: World) -> None:
        world.node("n")
        meta = {"name": "a", "uid": "uid-a"}
        stored_queue(
            world, "a", {"quotas": [{"resource": "gpu", "nominal": 1}]}, metadata={**meta, "generation": 7}
        )
        for number in range(3):
            in_queue(world, f"p{number}", "a")
        await world.settle()
        assert queue(world, "a")["status"]["observedGeneration"] == 7
        stored_queue(
            world, "a", {"quotas": [{"resource": "gpu", "nominal": 2}]}, metadata={**meta, "generation": 3}
        )
        await world.settle()
        assert sum(bool(world.node_of(f"p{number}")) for number in range(3)) == 2
        assert queue(world, "a")["status"]["observedGeneration"] == 3

    in_world(story)


def test_input_50_a_pod_without_a_uid_is_in_the_log_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        world.node("n")
        store(world, ("", "pods"), "default", broken_pod("bad", metadata={"uid": ""}))
        world.pod("good")
        await world.settle()
        assert (world.node_of("bad"), world.node_of("good")) == ("", "n")

    in_world(story)
    (said,) = (vars(one) for one in caplog.records if one.message == "an object cannot be read")
    assert said["object"] == "default/bad"
    assert "uid" in said["problem"]
