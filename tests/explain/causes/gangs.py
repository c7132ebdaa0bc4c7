"""Causes of gangs."""

from typing import Any

from tests.explain.causes.book import cause, taken
from tests.scheduler.world import World


def members(world: World, count: int, needed: int, **more: Any) -> None:
    """Members p, p1, p2, ... of the gang train."""
    for number in range(count):
        annotations = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": str(needed)}
        world.pod("p" if number == 0 else f"p{number}", annotations=annotations, **more)


@cause(
    "gang-short",
    why="needs 4 members at once and 3 have come: 1 member is missing",
    way="create the missing member",
)
def a_gang_is_short_of_members(world: World) -> None:
    world.node("a")
    members(world, 3, 4)


@cause(
    "gang-short",
    why="gang default/train needs 2 members at once and 1 has come",
    way="gang trian waits for members too: did its pods, or these, mean the other?",
)
def a_slip_parts_a_gang_in_two(world: World) -> None:
    world.node("a")
    members(world, 1, 2)
    annotations = {"gpufleet.io/gang": "trian", "gpufleet.io/gang-min-members": "2"}
    world.pod("other", annotations=annotations)


@cause("gang-short", why="1 member is missing", way="gated-one would count, but is gated", asks="train")
def a_member_is_gated(world: World) -> None:
    world.node("a")
    members(world, 2, 3)
    annotations = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "3"}
    world.pod("gated-one", annotations=annotations, schedulingGates=[{"name": "example.com/wait"}])


@cause("gpu-busy", why="needs 3 members at once, and room is for 2", way="ask for at most 2 members at once")
def a_gang_does_not_fit_at_once(world: World) -> None:
    for name in ("a", "b"):
        world.node(name, gpus=4)
        taken(world, name, 1)
    members(world, 3, 3, gpus=3)


@cause(
    "taint",
    why="room is for 0; for the next one 1 node would do, but for a taint",
    way="add to its tolerations",
    asks="train",
)
def a_gang_that_fits_nowhere(world: World) -> None:
    world.node("a", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}])
    members(world, 2, 2)


@cause("gang-short", why="1 of role worker", way="create the missing member", asks="podgroup/train")
def a_role_is_short(world: World) -> None:
    world.node("a")
    world.add(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"minMember": 3, "minTaskMember": {"master": 1, "worker": 2}},
        }
    )
    for name, role in (("p", "master"), ("p1", "worker"), ("p2", "master")):
        world.pod(name, annotations={"scheduling.k8s.io/group-name": "train", "volcano.sh/task-spec": role})


@cause("group-missing", why="its PodGroup tran is not there", way="did you mean train?")
def a_misspelt_group(world: World) -> None:
    world.node("a")
    group = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    metadata = {"name": "train", "namespace": "default"}
    world.add(
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": group}
    )
    world.pod("p", schedulingGroup={"podGroupName": "tran"})


@cause("gang-malformed", why="differ in what they say of it", way="the same", asks="p")
def members_contradict_each_other(world: World) -> None:
    world.node("a")
    for name, needed in (("p", "2"), ("p1", "3")):
        world.pod(name, annotations={"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": needed})


@cause(
    "gang-fit",
    why="for the next one all members must share one value of example.com/rack",
    way="wait until more of one example.com/rack is free",
)
def a_gang_fits_in_no_single_rack(world: World) -> None:
    for rack in ("one", "two"):
        world.node(f"node-{rack}", gpus=2, labels={"example.com/rack": rack})
    world.add(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            },
        }
    )
    for name in ("p", "p1", "p2"):
        world.pod(name, schedulingGroup={"podGroupName": "train"})
