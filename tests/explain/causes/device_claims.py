"""Causes that resource claims make: no devices are free for them, or theirs are elsewhere."""

from tests.explain.causes.book import cause
from tests.scheduler.claims import claim, device_class, devices, give, pod
from tests.scheduler.world import World


@cause(
    "claim-devices",
    why="no free devices on a serve its resource claims (mine)",
    way="a has the devices for it when claim default/other (in use by trainer) gives back its devices",
)
def a_device_that_another_claim_holds(world: World) -> None:
    device_class(world)
    devices(world, "a", "d0")
    claim(world, "other")
    give(world, "other", "a", "d0", "trainer")
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
    give(world, "shared", "b", "d0", "trainer")
    pod(world, "p", "shared")
