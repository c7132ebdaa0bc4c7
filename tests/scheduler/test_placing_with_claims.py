"""Pods with resource claims in a simulated cluster: devices are written before the Binding, and given back.

The order of writes, the ``reservedFor`` of each pod and what ties a claim to a node are those of
kube-scheduler's plugin DynamicResources.
"""

import pytest

from tests.scheduler.claims import (
    CLAIMS,
    claim,
    device_class,
    device_of,
    devices,
    found,
    give,
    pod,
    users_of,
    write_status,
)
from tests.scheduler.world import World, in_world

NOT_MADE = {
    "nothing": ("PATCH", "/resourceclaims/x"),
    "the finalizer": ("PATCH", "/resourceclaims/x/status"),
    "the devices": ("POST", "/pods/p/binding"),
}
"""The write that comes next, by what the scheduler has written before it ends."""


def test_a_claim_of_a_template_has_its_devices_before_its_pod_has_a_node() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0", "d1")
        world.pod("p", gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])
        await world.settle()
        assert "no claim has been made of the template one-gpu yet" in world.why("p")
        claim(world, "p-gpu-x", owner=world.get("p"))
        made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]}
        path = "/api/v1/namespaces/default/pods/p/status"
        assert world.request("PATCH", path, {"status": made}) == 200
        await world.settle()
        assert world.node_of("p") == "a"
        assert device_of(world, "p-gpu-x") in {"a/d0", "a/d1"}
        assert users_of(world, "p-gpu-x") == ["p"]
        assert found(world, "p-gpu-x")["metadata"]["finalizers"] == [
            "resource.kubernetes.io/delete-protection"
        ]
        paths = (f"{CLAIMS}/p-gpu-x", f"{CLAIMS}/p-gpu-x/status", "/api/v1/namespaces/default/pods/p/binding")
        written = [one.target for one in world.server.answered if one.method != "GET" and one.target in paths]
        assert written == list(paths)

    in_world(story)


def test_no_device_is_given_twice_and_one_that_is_free_again_goes_to_who_waits() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0")
        devices(world, "b", "d0")
        for name in ("x", "y", "z"):
            claim(world, name)
            pod(world, f"p{name}", name)
        await world.settle()
        (waits,) = (name for name in ("x", "y", "z") if not world.node_of(f"p{name}"))
        given = [device_of(world, name) for name in ("x", "y", "z") if name != waits]
        assert sorted(given) == ["a/d0", "b/d0"]
        assert "2 without free devices for the pod's resource claims" in world.why(f"p{waits}")
        done = next(name for name in ("x", "y", "z") if name != waits)
        world.finish(f"p{done}")
        write_status(world, done, {"allocation": None, "reservedFor": None})
        await world.settle()
        assert world.node_of(f"p{waits}")

    in_world(story)


def test_pods_that_share_a_claim_are_both_noted_in_it_and_go_where_its_device_is() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0")
        devices(world, "b", "d0")
        claim(world, "shared")
        pod(world, "p", "shared")
        pod(world, "q", "shared")
        await world.settle()
        assert sorted(users_of(world, "shared")) == ["p", "q"]
        assert {world.node_of("p"), world.node_of("q")} == {device_of(world, "shared")[0]}

    in_world(story)


def test_a_claim_that_has_devices_ties_a_pod_and_one_whose_node_has_no_room_gets_others() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0")
        devices(world, "b", "d0")
        claim(world, "kept")
        give(world, "kept", "b", "d0", "theirs")
        pod(world, "p", "kept")
        await world.settle()
        assert (world.node_of("p"), users_of(world, "kept")) == ("b", ["theirs", "p"])
        # What nobody uses keeps no pod from another node.
        claim(world, "tied")
        give(world, "tied", "a", "d0")
        assert world.request("PATCH", "/api/v1/nodes/a", {"spec": {"unschedulable": True}}) == 200
        devices(world, "c", "d0")
        await world.settle()
        pod(world, "q", "tied")
        await world.settle(60)
        assert (world.node_of("q"), device_of(world, "tied")) == ("c", "c/d0")

    in_world(story)


def test_a_device_that_another_scheduler_gave_at_that_moment_is_left_to_it() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0", "d1")
        for name in ("x", "theirs"):
            claim(world, name)
        world.delays("PATCH", "/resourceclaims/x/status", late_s=3.0)
        pod(world, "p", "x")
        await world.settle(1.5)
        assert not device_of(world, "x")
        # Our choice is made and on its way; another scheduler knows nothing of it.
        give(world, "theirs", "a", "d0", "other")
        await world.settle(120)
        assert (world.node_of("p"), device_of(world, "x")) == ("a", "a/d1")
        assert users_of(world, "x") == ["p"]

    in_world(story)


def test_a_pod_that_is_not_bound_leaves_nothing_in_its_claims() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0")
        claim(world, "x")
        world.delays("POST", "/pods/p/binding", late_s=2.0)
        pod(world, "p", "x")
        await world.settle(1.0)
        assert users_of(world, "x") == ["p"]
        world.delete("p")
        await world.settle()
        assert (device_of(world, "x"), users_of(world, "x")) == ("", [])

    in_world(story)


@pytest.mark.parametrize("after", NOT_MADE)
def test_a_process_that_ends_after_any_write_is_continued_by_the_next(after: str) -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0")
        devices(world, "b", "d0")
        await world.settle()
        for name in ("x", "y", "z"):
            claim(world, name)
        # The request that the first process is not to make any more is under way until it has ended.
        method, part = NOT_MADE[after]
        world.delays(method, part, late_s=30.0)
        pod(world, "p", "x")
        await world.settle(3.0)
        assert not world.node_of("p")
        await world.stop()
        world.hindrances.clear()
        world.start()
        for name in ("y", "z"):
            pod(world, f"p{name}", name)
        await world.settle(120)
        bound = [name for name, uses in (("p", "x"), ("py", "y"), ("pz", "z")) if world.node_of(name)]
        given = [device_of(world, name) for name in ("x", "y", "z") if device_of(world, name)]
        assert len(bound) == 2
        assert sorted(given) == ["a/d0", "b/d0"], "each device once, and none is lost"

    in_world(story)


def test_members_of_a_gang_start_with_claims_together_or_not_at_all() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0", "d1")
        group = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": "3"}
        for name in ("x", "y", "z"):
            claim(world, name)
            pod(world, f"p{name}", name, annotations=group)
        await world.settle()
        assert not any(device_of(world, name) for name in ("x", "y", "z"))
        devices(world, "b", "d0")
        await world.settle()
        assert sorted(device_of(world, name) for name in ("x", "y", "z")) == ["a/d0", "a/d1", "b/d0"]
        assert all(world.node_of(f"p{name}") for name in ("x", "y", "z"))

    in_world(story)


def test_writes_whose_answers_are_lost_give_no_device_twice_and_lose_none() -> None:
    async def story(world: World) -> None:
        device_class(world)
        for node in ("a", "b", "c"):
            devices(world, node, "d0")
        for part in ("/resourceclaims/", "/status", "/binding"):
            for method in ("PATCH", "POST", "GET"):
                world.loses(method, part, times=2)
        names = ("x", "y", "z", "late")
        for name in names:
            claim(world, name)
            pod(world, f"p{name}", name)
        await world.settle(600)
        bound = [name for name in names if world.node_of(f"p{name}")]
        given = {name: device_of(world, name) for name in names if device_of(world, name)}
        assert len(bound) == 3
        assert sorted(given.values()) == ["a/d0", "b/d0", "c/d0"]
        assert all(given[name] == f"{world.node_of(f'p{name}')}/d0" for name in bound)

    in_world(story)


def test_a_quota_counts_claims_of_running_pods_also_for_the_next_scheduler() -> None:
    key = "gpu.deviceclass.resource.k8s.io/devices"
    quotas = [{"resource": key, "nominal": 1}]
    described = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "metadata": {"name": "a"}}

    async def story(world: World) -> None:
        world.add({**described, "spec": {"quotas": quotas}})
        device_class(world)
        devices(world, "n", "d0", "d1")
        labels = {"gpufleet.io/queue": "a"}
        claim(world, "x")
        pod(world, "first", "x", labels=labels)
        await world.settle()
        assert world.node_of("first") == "n"
        await world.stop()
        world.start()
        claim(world, "y")
        pod(world, "second", "y", labels=labels)
        await world.settle(60.0)
        assert "waits for quota" in world.why("second")
        assert world.node_of("second") == ""
        world.finish("first")
        await world.settle()
        assert world.node_of("second") == "n"

    in_world(story)


def test_a_pod_ends_for_the_device_of_its_claim_which_is_kept_until_the_claim_is_free() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "d0")
        for name in ("x", "y", "z"):
            claim(world, name)
        pod(world, "low", "x", priority=0)
        await world.settle()
        pod(world, "high", "y", priority=100)
        await world.settle()
        assert world.evicted() == ["low"]
        assert "node a is kept for it until default/low has ended" in world.why("high")
        world.finish("low")
        pod(world, "late", "z", priority=50)
        await world.settle()
        # Kubernetes' controller of claims has not been there yet.
        assert device_of(world, "x") == "a/d0"
        assert (world.node_of("high"), world.node_of("late"), world.evicted()) == ("", "", ["low"])
        await world.stop()
        world.start()
        await world.settle()
        assert "resource claims of pods that have ended give back their devices" in world.why("high")
        write_status(world, "x", {"allocation": None, "reservedFor": None})
        await world.settle()
        assert (world.node_of("high"), device_of(world, "y")) == ("a", "a/d0")
        assert world.node_of("late") == ""

    in_world(story)
