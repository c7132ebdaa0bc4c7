"""GPUs that are held without a grant are counted, by what holds them."""

from typing import Any

from tests.scheduler.world import World, in_world

REPORTS = "/apis/gpufleet.io/v1alpha1/nodedevices"


def counted(world: World) -> dict[str, float]:
    metric = world.metrics.foreign_gpus
    return {holder: metric.labels(holder)._value.get() for holder in ("pod", "unknown")}


def another(world: World, name: str, gpus: int) -> str:
    """A pod that another scheduler placed; its UID."""
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec: dict[str, Any] = {"schedulerName": "other", "nodeName": "a", "containers": [container]}
    metadata = {"name": name, "namespace": "default"}
    made = world.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    uid: str = made["metadata"]["uid"]
    return uid


def test_pods_without_a_grant_and_what_is_no_pod_are_counted() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("ours", gpus=2)
        await world.settle()
        assert counted(world) == {"pod": 0, "unknown": 0}
        uid = another(world, "theirs", 3)
        holders = [{"device": "GPU-a-7"}, {"device": "GPU-a-6", "podUID": uid, "foreign": "default/theirs"}]
        assert world.request("PATCH", f"{REPORTS}/a", {"spec": {"holders": holders}}, "system:node:a") == 200
        await world.settle()
        assert counted(world) == {"pod": 3, "unknown": 1}
        gone = world.request("DELETE", "/api/v1/namespaces/default/pods/theirs", {"gracePeriodSeconds": 0})
        assert gone == 200
        assert world.request("PATCH", f"{REPORTS}/a", {"spec": {"holders": []}}, "system:node:a") == 200
        await world.settle(60)
        assert counted(world) == {"pod": 0, "unknown": 0}

    in_world(story)


def test_what_a_pod_holds_that_the_api_server_does_not_know_any_more_is_counted() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("ours", gpus=2)
        await world.settle()
        uid = world.get("ours")["metadata"]["uid"]
        holders = [{"device": one, "podUID": uid} for one in world.devices_of("ours")]
        assert world.request("PATCH", f"{REPORTS}/a", {"spec": {"holders": holders}}, "system:node:a") == 200
        await world.settle()
        assert counted(world) == {"pod": 0, "unknown": 0}
        pod = "/api/v1/namespaces/default/pods/ours"
        assert world.request("DELETE", pod, {"gracePeriodSeconds": 0}) == 200
        await world.settle()
        assert counted(world) == {"pod": 0, "unknown": 2}
        assert world.request("PATCH", f"{REPORTS}/a", {"spec": {"holders": []}}, "system:node:a") == 200
        await world.settle(60)
        assert counted(world) == {"pod": 0, "unknown": 0}

    in_world(story)
