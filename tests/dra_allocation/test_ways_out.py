"""A refusal names what each device has against a choice, and only ways out that the allocator accepts."""

import json
from typing import Any

import pytest

from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.capacity import DeviceCapacity
from gpufleet.dra_allocation.claims import (
    DeviceChoice,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
)
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.obstacles import Obstacle, ObstacleKind
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.results import AllocatedDevice, Allocation, Refusal
from gpufleet.dra_allocation.slices import (
    CounterSet,
    CounterUse,
    Device,
    DeviceId,
    DeviceTaint,
    NodeFacts,
    NodeReach,
    PoolPart,
    ResourceSlice,
)
from gpufleet.dra_allocation.ways_out import (
    Change,
    FewerDevices,
    HoldersEnd,
    LessCapacity,
    Tolerating,
    WithoutConstraint,
    WithoutSelector,
    ways_out,
)
from gpufleet.model.quantity import parse_quantity
from tests.dra_allocation.questions import RANDOM_COUNT, answer, reference_answers, taken_apart
from tests.dra_allocation.random_questions import random_question
from tests.dra_allocation.validator import problems

DRIVER = "gpu.example.com"
BIG = 'device.attributes["gpu.example.com"].size == "big"'
REFUSED_FOR_HOLDERS = (53, 68, 78, 145, 157, 161, 205, 217, 239, 288, 329, 389)
"""Random questions whose claims are refused because of holders, those that take the least work."""


def node_of(*devices: Device, counters: tuple[CounterSet, ...] = ()) -> Allocator:
    """A node with these devices in one pool, and the class ``any``."""
    reach = NodeReach("node-1")
    slices = [ResourceSlice("s", DRIVER, PoolPart("pool", 1, 1 + bool(counters)), reach, devices)]
    if counters:
        slices.append(ResourceSlice("c", DRIVER, PoolPart("pool", 1, 2), reach, (), counters))
    pools = SliceIndex(slices).pools(NodeFacts("node-1"))
    return Allocator("node-1", pools, {"any": DeviceClass("any")})


def device(name: str, size: str = "", **more: Any) -> Device:
    return Device(name, {"size": size} if size else {}, **more)


def claim(*constraints: DeviceConstraint, **choice: Any) -> ResourceClaim:
    return ResourceClaim(
        "team", "mine", (DeviceRequest("gpu", (DeviceChoice("any", **choice),)),), constraints
    )


def holder(*devices: str, **more: Any) -> Allocation:
    return Allocation(tuple(AllocatedDevice("r", DeviceId(DRIVER, "pool", one), **more) for one in devices))


def against(node: Allocator, asked: ResourceClaim, **holders: Allocation) -> dict[str, list[Obstacle]]:
    """What each refused device has against the one choice."""
    ((found,),) = node.diagnosis([asked], HeldDevices.of(holders.values()))
    return {one.device: list(obstacles) for one, obstacles in found.refused.items()}


def ways(node: Allocator, asked: ResourceClaim, **holders: Allocation) -> list[Change]:
    assert isinstance(node.allocate([asked], HeldDevices.of(holders.values())), Refusal)
    return list(ways_out(node, [asked], holders))


def test_a_selector_is_named_with_where_it_stands() -> None:
    node, asked = node_of(device("a", "small")), claim(selectors=(BIG,))
    found = Obstacle(ObstacleKind.SELECTOR, f"{BIG} (claim team/mine, request gpu)")
    assert against(node, asked) == {"a": [found]}
    assert ways(node, asked) == [WithoutSelector("team/mine", "gpu", BIG)]


def test_a_taint_is_named_and_its_toleration_is_the_way_out() -> None:
    taint = DeviceTaint("sick", "yes")
    node = node_of(device("a", taints=(taint,)))
    assert against(node, claim()) == {"a": [Obstacle(ObstacleKind.TAINT, "sick=yes:NoSchedule")]}
    assert ways(node, claim()) == [Tolerating("team/mine", "gpu", taint)]


def test_the_one_holder_whose_end_is_enough_is_named() -> None:
    node = node_of(device("a", "small"), device("b", "big"))
    asked = claim(selectors=(BIG,))
    holders = {"x": holder("a"), "y": holder("b")}
    assert against(node, asked, **holders)["b"] == [Obstacle(ObstacleKind.HELD)]
    assert ways(node, asked, **holders) == [HoldersEnd(("y",))]


def test_holders_that_must_end_together_are_named_and_no_others() -> None:
    node = node_of(device("a", "small"), device("b", "big"), device("c", "big"))
    holders = {"x": holder("a"), "y": holder("b"), "z": holder("c")}
    assert ways(node, claim(selectors=(BIG,), count=2), **holders) == [HoldersEnd(("y", "z"))]


def test_fewer_devices_are_the_most_that_there_are() -> None:
    node = node_of(device("a"), device("b"))
    assert ways(node, claim(count=4)) == [FewerDevices("team/mine", "gpu", 2)]


def test_a_constraint_is_the_way_out_where_devices_do_not_go_together() -> None:
    node = node_of(device("a", "small"), device("b", "big"))
    alike = DeviceConstraint(f"{DRIVER}/size")
    asked = claim(alike, count=2)
    assert against(node, asked) == {}
    expected = [WithoutConstraint("team/mine", alike), FewerDevices("team/mine", "gpu", 1)]
    assert ways(node, asked) == expected


def test_a_device_without_the_attribute_of_a_constraint_is_refused_for_it() -> None:
    found = against(node_of(device("a")), claim(DeviceConstraint(f"{DRIVER}/size")))
    assert found == {"a": [Obstacle(ObstacleKind.ATTRIBUTE, f"{DRIVER}/size")]}


def test_a_counter_is_named_with_what_is_left_of_it() -> None:
    use = (CounterUse("gpu-0", {"slices": parse_quantity("4")}),)
    total = (CounterSet("gpu-0", {"slices": parse_quantity("7")}),)
    node = node_of(device("a", counter_uses=use), device("b", counter_uses=use), counters=total)
    found = against(node, claim(), x=holder("a"))
    short = Obstacle(ObstacleKind.COUNTER, "gpu-0/slices: it needs 4, 3 is left")
    assert found["b"] == [short]
    assert ways(node, claim(), x=holder("a")) == [HoldersEnd(("x",))]


def test_counters_that_a_device_which_left_its_slice_may_draw_on_are_not_given() -> None:
    use = (CounterUse("gpu-0", {"slices": parse_quantity("1")}),)
    total = (CounterSet("gpu-0", {"slices": parse_quantity("7")}),)
    found = against(node_of(device("a", counter_uses=use), counters=total), claim(), x=holder("gone"))
    assert found == {"a": [Obstacle(ObstacleKind.DEPARTED, "gone")]}


def test_of_a_share_the_room_that_is_left_is_told_and_may_be_asked_for() -> None:
    memory = {"memory": DeviceCapacity(parse_quantity("80Gi"))}
    node = node_of(device("a", capacity=memory, is_shareable=True))
    held = holder("a", is_share=True, taken={"memory": parse_quantity("60Gi")})
    asked = claim(capacity={"memory": parse_quantity("40Gi")})
    room = Obstacle(ObstacleKind.ROOM, "memory: it needs 40Gi, 20Gi is left")
    assert against(node, asked, x=held) == {"a": [room]}
    less = LessCapacity("team/mine", "gpu", "memory", parse_quantity("20Gi"))
    assert ways(node, asked, x=held) == [HoldersEnd(("x",)), less]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("memory", "memory is 80Gi, and 100Gi is asked for"),
        ("cores", "it has no cores, and 100Gi is asked for"),
    ],
)
def test_what_no_device_has_is_an_obstacle_of_its_capacity(wanted: str, said: str) -> None:
    memory = {"memory": DeviceCapacity(parse_quantity("80Gi"))}
    asked = claim(capacity={wanted: parse_quantity("100Gi")})
    found = against(node_of(device("a", capacity=memory)), asked)
    assert found == {"a": [Obstacle(ObstacleKind.CAPACITY, said)]}


def test_a_device_with_fewer_and_softer_obstacles_is_nearer() -> None:
    node = node_of(device("a", "small"), device("b", "big", taints=(DeviceTaint("sick"),)))
    ((found,),) = node.diagnosis([claim(selectors=(BIG,))], HeldDevices())
    assert found.nearest is not None
    assert found.nearest[0].device == "b"
    assert found.lacking == 1


@pytest.mark.parametrize("seed", REFUSED_FOR_HOLDERS)
def test_random_claims_are_served_once_the_holders_that_are_named_have_ended(seed: int) -> None:
    """The validator judges what the way out promises, of claims that the reference refuses."""
    question = random_question(seed)
    assert json.loads(reference_answers()[seed - RANDOM_COUNT])["outcome"] == "none"
    (ended,) = ending_of(question)
    rest = [one for one in question["holders"] if path(one) not in ended]
    changed = {**question, "holders": rest}
    found = answer(changed)
    assert found["outcome"] == "fit"
    assert not problems(changed, found["results"])


def path(one: dict[str, Any]) -> str:
    return str(one["metadata"]["name"])


def ending_of(question: dict[str, Any]) -> list[tuple[str, ...]]:
    """The ends of holders that are a way out."""
    node, claims, holders = taken_apart(question)
    if not isinstance(node.allocate(claims, HeldDevices.of(holders.values())), Refusal):
        return []
    return [one.claims for one in ways_out(node, claims, holders) if isinstance(one, HoldersEnd)]
