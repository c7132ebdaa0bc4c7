"""Causes of reservations: somebody of a better right holds the place until it can start there."""

from tests.explain.causes.book import cause
from tests.scheduler.world import World

OF_TEAM = {"gpufleet.io/queue": "team"}
NEVER = {"withinQueue": "Never", "reclaim": "Never"}
GANG = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}


def half_full(world: World) -> None:
    """One of two GPUs is in use, and the team reserves at once."""
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    world.add({**kind, "metadata": {"name": "team"}, "spec": {"reserveAfter": "0s", "preemption": NEVER}})
    world.node("a", gpus=2)
    world.pod("old", labels=OF_TEAM, nodeName="a")


@cause(
    "reservation",
    why="pod default/large of queue team holds a reservation of 1 node, and its start is not known",
    way="wait until it has started",
)
def a_pod_that_comes_first_holds_what_there_is(world: World) -> None:
    half_full(world)
    world.pod("large", gpus=2, labels=OF_TEAM, priority=10)
    world.pod("p", labels=OF_TEAM)


@cause("reservation", why="it could run now, but gang default/train of queue team holds a", way="wait")
def a_gang_that_comes_first_holds_what_there_is(world: World) -> None:
    half_full(world)
    for member in ("train-0", "train-1"):
        world.pod(member, labels=OF_TEAM, annotations=GANG, priority=10)
    world.pod("p", labels=OF_TEAM)


@cause(
    "reserved",
    why="it holds a reservation of 1 node, waits for default/old to end, and its start is not known",
    way="it starts there then",
)
def it_holds_a_reservation(world: World) -> None:
    half_full(world)
    world.pod("p", gpus=2, labels=OF_TEAM)


@cause(
    "reserved",
    why="it holds a reservation of 1 node, waits for default/old to end",
    way="gpufleet.io/run-time",
)
def its_gang_holds_a_reservation(world: World) -> None:
    half_full(world)
    for member in ("p", "q"):
        world.pod(member, labels=OF_TEAM, annotations=GANG)
