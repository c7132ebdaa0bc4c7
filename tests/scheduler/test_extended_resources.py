"""Pods that ask for devices by number, where a class serves the resource by claims, in a simulated cluster.

What is written, and for which containers, is as in kube-scheduler's plugin DynamicResources (KEP-5004).
"""

from typing import Any

import pytest

from tests.explain.test_device_claims import answer_in
from tests.scheduler.claims import CLAIMS, DRIVER, devices, of_api, users_of, write_status
from tests.scheduler.world import Object, World, in_world

RESOURCE = "example.com/gpu"


def serving_class(world: World, name: str = "gpu", resource: str = RESOURCE) -> None:
    """A class of every device, which serves an extended resource."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    world.add(of_api("DeviceClass", name, spec={"selectors": selectors, "extendedResourceName": resource}))


def asking(world: World, name: str, count: int = 1, resource: str = RESOURCE, **more: Any) -> None:
    """A pod that asks for so many devices by number."""
    amounts = {resource: str(count)}
    container = {"name": "main", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
    world.pod(name, gpus=0, containers=[container], **more)


def counts(world: World, node: str, number: int) -> None:
    """A device plugin counts so many devices on a node."""
    amounts = {"status": {"allocatable": {RESOURCE: str(number)}}}
    assert world.request("PATCH", f"/api/v1/nodes/{node}/status", amounts) == 200


def claim_of(world: World, name: str) -> Object:
    """The claim that was made for a pod."""
    (made,) = (one for one in world.objects(CLAIMS) if one["metadata"]["name"].startswith(f"{name}-extended"))
    return made


def status_of(world: World, name: str) -> Object | None:
    """What a pod's status says of its claim."""
    status: Object = world.get(name).get("status", {})
    return status.get("extendedResourceClaimStatus")


@pytest.mark.parametrize("resource", [RESOURCE, "deviceclass.resource.kubernetes.io/gpu"])
def test_a_pod_gets_a_claim_of_its_own_for_what_it_asks_for_by_number(resource: str) -> None:
    async def story(world: World) -> None:
        serving_class(world)
        devices(world, "a", "d0")
        devices(world, "b", "d0", "d1")
        asking(world, "p", 2, resource)
        await world.settle()
        assert world.node_of("p") == "b"
        made = claim_of(world, "p")
        assert made["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", world.get("p")["metadata"]["uid"])
        (request,) = made["spec"]["devices"]["requests"]
        assert request["name"] == "container-0-request-0"
        assert request["exactly"] == {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 2,
        }
        assert users_of(world, made["metadata"]["name"]) == ["p"]
        use = {"containerName": "main", "resourceName": resource, "requestName": "container-0-request-0"}
        assert status_of(world, "p") == {
            "resourceClaimName": made["metadata"]["name"],
            "requestMappings": [use],
        }

    in_world(story)


def test_devices_are_held_by_number_and_by_claim_and_a_pod_that_waits_says_so() -> None:
    async def story(world: World) -> None:
        serving_class(world)
        devices(world, "a", "d0")
        asking(world, "p")
        await world.settle()
        asking(world, "q")
        await world.settle()
        assert (world.node_of("p"), world.node_of("q")) == ("a", "")
        assert "without free devices for the pod's resource claims" in world.why("q")
        answer = await answer_in(world, "q")
        assert "request container-0-request-0 of claim default/q-extended-resources-" in answer.why
        assert "1 is held by other claims" in answer.why
        assert "(in use by p) gives back its devices" in answer.way_out[0]
        # The next scheduler knows what is held by the claim alone.
        await world.stop()
        world.start()
        await world.settle()
        assert world.node_of("q") == ""
        world.finish("p")
        write_status(
            world, claim_of(world, "p")["metadata"]["name"], {"allocation": None, "reservedFor": None}
        )
        await world.settle()
        assert world.node_of("q") == "a"

    in_world(story)


@pytest.mark.parametrize(
    "after", [("PATCH", "/resourceclaims/p-"), ("PATCH", "/status"), ("POST", "/pods/p/binding")]
)
def test_a_process_that_ends_after_any_write_is_continued_by_the_next(after: tuple[str, str]) -> None:
    async def story(world: World) -> None:
        serving_class(world)
        devices(world, "a", "d0")
        await world.settle()
        world.delays(*after, late_s=30.0)
        asking(world, "p")
        await world.settle(3.0)
        assert not world.node_of("p")
        await world.stop()
        world.hindrances.clear()
        world.start()
        await world.settle(120)
        assert world.node_of("p") == "a"
        assert status_of(world, "p") is not None
        assert len(world.objects(CLAIMS)) == 1

    in_world(story)


def test_answers_that_are_lost_make_no_second_claim() -> None:
    async def story(world: World) -> None:
        serving_class(world)
        devices(world, "a", "d0")
        for method, part in (
            ("POST", "/resourceclaims"),
            ("PATCH", "/resourceclaims/"),
            ("PATCH", "/pods/p"),
        ):
            world.loses(method, part, times=2)
        asking(world, "p")
        await world.settle(300)
        assert world.node_of("p") == "a"
        assert len(world.objects(CLAIMS)) == 1

    in_world(story)


def test_a_resource_that_a_node_counts_by_number_is_no_claim() -> None:
    async def story(world: World) -> None:
        serving_class(world)
        devices(world, "a", "d0")
        world.node("b", gpus=0)
        counts(world, "b", 1)
        await world.settle()
        asking(world, "p")
        await world.settle()
        assert world.node_of("p") == "b"
        assert world.objects(CLAIMS) == []
        # Its driver goes over to claims: a pod that waits is read anew.
        asking(world, "q")
        await world.settle()
        assert world.node_of("q") == ""
        counts(world, "b", 0)
        await world.settle()
        assert (world.node_of("q"), len(world.objects(CLAIMS))) == ("a", 1)

    in_world(story)
