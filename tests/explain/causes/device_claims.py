"""Causes that resource claims make: no devices are free for them, or theirs are elsewhere."""

from tests.explain.causes.book import cause
from tests.scheduler.claims import claim, device_class, devices, give, pod, write_status
from tests.scheduler.world import World


def trainer(world: World, name: str, node: str) -> None:
    """A pod of another scheduler runs with the device of a claim."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
    spec |= {"resourceClaims": [{"name": "gpus", "resourceClaimName": name}]}
    metadata = {"name": "trainer", "namespace": "default"}
    world.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    give(world, name, node, "d0", "trainer")
    user = {"resource": "pods", "name": "trainer", "uid": world.get("trainer")["metadata"]["uid"]}
    write_status(world, name, {"reservedFor": [user]})


@cause(
    "claim-devices",
    why="no free devices on a serve its resource claims (mine)",
    way="a has the devices for it when claim default/other (in use by trainer) gives back its devices",
)
def a_device_that_another_claim_holds(world: World) -> None:
    device_class(world)
    devices(world, "a", "d0")
    claim(world, "other")
    trainer(world, "other", "a")
    claim(world, "mine")
    pod(world, "p", "mine")


@cause(
    "claim-elsewhere",
    why="of its resource claims (shared) some have devices that a cannot use",
    way="make room on the nodes that can use these devices",
)
def a_claim_whose_devices_are_on_a_node_that_is_gone(world: World) -> None:
    device_class(world)
    devices(world, "a", "d0")
    claim(world, "shared")
    trainer(world, "shared", "b")
    pod(world, "p", "shared")
