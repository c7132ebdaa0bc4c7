"""Causes of taking back: room that others still hold, who end for the pod's sake."""

from tests.explain.causes.book import cause, taken
from tests.scheduler.world import World

OF_TEAM = {"gpufleet.io/queue": "team"}


def team(world: World) -> None:
    """A queue whose work may evict others of it of lower priority."""
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    world.add({**kind, "metadata": {"name": "team"}, "spec": {}})


@cause("nominated", why="node a is kept for it until default/a-user has", way="as soon as they have ended")
def work_of_lower_priority_ends_for_it(world: World) -> None:
    team(world)
    world.node("a", gpus=1)
    taken(world, "a", 1, labels=OF_TEAM)
    world.pod("p", gpus=1, labels=OF_TEAM, priority=10)


@cause("no-leader", why="node a would be kept for it until default/a-user", way="", scheduler=False)
def no_leader_evicts_for_it(world: World) -> None:
    team(world)
    world.node("a", gpus=1)
    taken(world, "a", 1, labels=OF_TEAM)
    world.pod("p", gpus=1, labels=OF_TEAM, priority=10)
