"""Objects that were stored before their schema was tightened: each harms its owner alone, who is told."""

from typing import Any

import pytest

from tests.scheduler.world import World, in_world

PODS = ("", "pods")


def store(world: World, kind: tuple[str, str], namespace: str, value: dict[str, Any]) -> None:
    """Put an object past every check of the server."""
    name = (namespace, value["metadata"]["name"])
    world.server.store.put(kind, name, value, at_s=world.clock.monotonic_s(), user="older-server")


def broken_pod(name: str, *, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of ours with these fields, whatever they are."""
    limits = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "resources": {"limits": limits, "requests": limits}}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **(metadata or {}),
        },
        "spec": {"schedulerName": "gpufleet", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(("pod", "words"), [
    (broken_pod("bad", nodeSelector=["not", "a", "map"]), "nodeSelector"),
    (broken_pod("bad", tolerations={"not": "a list"}), "tolerations"),
    (broken_pod("bad", containers=None), "containers"),
    (broken_pod("bad", containers={}), "containers"),
    (broken_pod("bad", priority="high"), "priority"),
    (broken_pod("bad", metadata={"labels": ["x"]}), "labels"),
    (broken_pod("bad", metadata={"creationTimestamp": "yesterday"}), "metadata.creationTimestamp"),
    (broken_pod("bad", affinity={"nodeAffinity": 3}), "affinity"),
    (broken_pod("bad", overhead={"cpu": "many"}), "overhead"),
])  # fmt: skip
def test_the_owner_of_a_broken_pod_is_told_which_field_and_others_run(
    pod: dict[str, Any], words: str
) -> None:
    async def story(world: World) -> None:
        world.node("a")
        store(world, PODS, "default", pod)
        world.pod("good")
        await world.settle()
        assert [words in note for note in world.events("FailedScheduling")] == [True]
        # Of a pod whose metadata is broken the server itself takes no status.
        assert words in world.why("bad") or words == "labels"
        assert world.node_of("bad") == ""
        assert world.node_of("good") == "a"

    in_world(story)


def test_a_broken_pod_of_another_scheduler_is_nobodys_business() -> None:
    async def story(world: World) -> None:
        store(
            world, PODS, "default", broken_pod("bad", schedulerName="default-scheduler", nodeSelector=["x"])
        )
        await world.settle()
        assert world.why("bad") == ""

    in_world(story)


def test_a_broken_pod_that_is_mended_runs() -> None:
    async def story(world: World) -> None:
        world.node("a")
        store(world, PODS, "default", broken_pod("bad", nodeSelector=["not", "a", "map"]))
        await world.settle()
        store(world, PODS, "default", broken_pod("bad"))
        await world.settle()
        assert world.node_of("bad") == "a"

    in_world(story)


def test_a_broken_pod_that_goes_leaves_nothing_behind() -> None:
    async def story(world: World) -> None:
        store(world, PODS, "default", broken_pod("bad", nodeSelector=["not", "a", "map"]))
        await world.settle()
        world.server.store.put(PODS, ("default", "bad"), None, at_s=world.clock.monotonic_s(), user="x")
        await world.settle()
        world.node("a", gpus=1)
        world.pod("bad")
        await world.settle()
        assert world.node_of("bad") == "a"

    in_world(story)


@pytest.mark.parametrize("spec", [
    {"tolerations": {"not": "a list"}},
    {"containers": "none"},
    {"overhead": {"cpu": "many"}},
])  # fmt: skip
def test_what_a_broken_pod_was_granted_is_given_to_nobody_else(spec: dict[str, Any]) -> None:
    grant = '{"v":1,"epoch":0,"containers":{"main":[{"id":"GPU-a-0","kind":"whole","gpuMilli":1000}]}}'

    async def story(world: World) -> None:
        world.node("a", gpus=2)
        running = broken_pod(
            "running", metadata={"annotations": {"gpufleet.io/grant": grant}}, nodeName="a", **spec
        )
        store(world, PODS, "default", running)
        for name in ("p", "q"):
            world.pod(name)
        await world.settle()
        placed = [name for name in ("p", "q") if world.node_of(name)]
        assert [world.devices_of(name) for name in placed] == [["GPU-a-1"]]

    in_world(story)


@pytest.mark.parametrize("moment", ["yesterday", "9999-12-31T23:59:59-23:59", "0000-00-00T00:00:00Z"])
def test_a_member_whose_times_make_no_sense_does_not_stop_the_scheduler(moment: str) -> None:
    annotations = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}

    async def story(world: World) -> None:
        world.node("a")
        bound = broken_pod("w0", metadata={"annotations": annotations}, nodeName="a")
        told = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}
        store(world, PODS, "default", {**bound, "status": {"phase": "Running", "conditions": [told]}})
        await world.settle()
        world.pod("w1", annotations=annotations)
        await world.settle()
        assert world.node_of("w1") == "a"

    in_world(story)


@pytest.mark.parametrize("kind", [
    ("", "nodes"),
    ("gpufleet.io", "nodedevices"),
    ("", "namespaces"),
    ("", "persistentvolumes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "csinodes"),
    ("scheduling.k8s.io", "podgroups"),
])  # fmt: skip
@pytest.mark.parametrize("spec", [None, ["a", "list"], "words", 7])
def test_any_broken_object_harms_nobody(kind: tuple[str, str], spec: Any) -> None:
    async def story(world: World) -> None:
        world.node("a")
        value = {"metadata": {"name": "bad", "uid": "bad"}, "spec": spec, "status": spec, "parameters": spec}
        store(world, kind, "default" if kind[1] == "podgroups" else "", value)
        world.pod("good")
        await world.settle()
        assert world.node_of("good") == "a"

    in_world(story)


def test_a_claim_that_cannot_be_read_keeps_its_own_pod_waiting() -> None:
    async def story(world: World) -> None:
        world.node("a")
        claim = {
            "metadata": {"name": "data", "namespace": "default", "uid": "c"},
            "spec": ["not", "a", "map"],
        }
        store(world, ("", "persistentvolumeclaims"), "default", claim)
        world.pod("bad", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
        world.pod("good")
        await world.settle()
        assert "data" in world.why("bad")
        assert world.node_of("good") == "a"

    in_world(story)


def test_a_grant_that_nobody_can_read_is_no_reason_to_stop() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        odd = broken_pod("odd", metadata={"annotations": {"gpufleet.io/grant": "[" * 100_000}}, nodeName="a")
        store(world, PODS, "default", odd)
        world.pod("p")
        await world.settle()
        assert world.node_of("p") == "a"

    in_world(story)
