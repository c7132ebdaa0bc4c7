"""The order that keeps more for what comes later: of cards, shares and whole devices."""

import itertools
from typing import Any

import pytest

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.capacity import DeviceCapacity
from gpufleet.dra_allocation.claims import DeviceChoice, DeviceClass, DeviceRequest, ResourceClaim
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.preference import CandidateOrder, LeastLoss, first_fit
from gpufleet.dra_allocation.results import AllocatedDevice, Allocation, Refusal
from gpufleet.dra_allocation.slices import (
    CounterSet,
    CounterUse,
    Device,
    DeviceId,
    NodeFacts,
    NodeReach,
    PoolPart,
    ResourceSlice,
)
from gpufleet.model.quantity import parse_quantity
from tests.dra_allocation.questions import short, taken_apart
from tests.dra_allocation.random_questions import random_question
from tests.dra_allocation.validator import problems

DRIVER = "gpu.example.com"
REACH = NodeReach("node-1")
PLACES = {"small": (0, 1, 2, 3), "half": (2, 0), "whole": (0,)}
"""Kinds of partitions of a card with four places, and where they begin, in the order of the driver."""

SIZES = {"small": 1, "half": 2, "whole": 4}


def a_card(number: int) -> list[ResourceSlice]:
    """A card in a pool of its own."""
    part = PoolPart(f"card-{number}", 1, 2)
    one = parse_quantity("1")
    counters = CounterSet("places", {f"place-{place}": one for place in range(4)})
    devices = tuple(
        Device(
            f"{kind}-{start}",
            {"kind": kind},
            counter_uses=(
                CounterUse("places", {f"place-{place}": one for place in range(start, start + SIZES[kind])}),
            ),
        )
        for kind, starts in PLACES.items()
        for start in starts
    )
    return [
        ResourceSlice(f"{number}-c", DRIVER, part, REACH, (), (counters,)),
        ResourceSlice(f"{number}-d", DRIVER, part, REACH, devices),
    ]


def plain(*devices: Device) -> list[ResourceSlice]:
    return [ResourceSlice("s", DRIVER, PoolPart("pool", 1, 1), REACH, devices)]


def allocated(
    slices: list[ResourceSlice], *held: str, taken: dict[str, str] | None = None, **choice: Any
) -> list[str]:
    """The pools and devices that a claim gets; ``taken`` are shares of memory by device."""
    names = [DeviceId(DRIVER, *one.split("/")) for one in held]
    shares = [
        AllocatedDevice(
            "r", DeviceId(DRIVER, "pool", one), is_share=True, taken={"memory": parse_quantity(of)}
        )
        for one, of in (taken or {}).items()
    ]
    holder = Allocation((*(AllocatedDevice("r", one) for one in names), *shares))
    pools = SliceIndex(slices).pools(NodeFacts("node-1"))
    node = Allocator("node-1", pools, {"any": DeviceClass("any")}, order=LeastLoss())
    claim = ResourceClaim("", "mine", (DeviceRequest("r", (DeviceChoice("any", **choice),)),))
    found = node.allocate([claim], HeldDevices.of([holder]))
    assert not isinstance(found, Refusal)
    return [f"{one.id.pool}/{one.id.device}" for one in found[0].devices]


def of_kind(kind: str) -> tuple[str, ...]:
    return (f'device.attributes["{DRIVER}"].kind == "{kind}"',)


TWO_CARDS = a_card(0) + a_card(1)


@pytest.mark.parametrize(
    ("held", "kind", "expected"),
    [
        # A card that is in use loses less than one that is whole.
        (["card-1/small-3"], "small", "card-1/small-0"),
        # The half in which another small one stands has lost its half already.
        (["card-0/half-0", "card-1/small-0"], "small", "card-1/small-1"),
        # A card that is full gives nothing.
        (["card-0/whole-0"], "half", "card-1/half-2"),
        # The card with room for no more than this.
        (["card-0/small-0", "card-1/half-0"], "half", "card-1/half-2"),
    ],
)
def test_the_card_is_taken_on_which_the_least_is_lost(held: list[str], kind: str, expected: str) -> None:
    assert allocated(TWO_CARDS, *held, selectors=of_kind(kind)) == [expected]


def test_on_one_card_the_order_of_the_driver_stays() -> None:
    assert allocated(a_card(0), selectors=of_kind("half")) == ["card-0/half-2"]


def test_a_whole_card_is_kept_where_a_part_would_do() -> None:
    assert allocated(TWO_CARDS, "card-1/small-3") == ["card-1/small-0"]


def test_a_share_goes_where_the_least_room_is_left() -> None:
    memory = {"memory": DeviceCapacity(parse_quantity("80Gi"))}
    devices = [Device(name, capacity=memory, is_shareable=True) for name in ("a", "b", "c")]
    asked = {"memory": parse_quantity("20Gi")}
    assert allocated(plain(*devices), taken={"b": "30Gi", "c": "60Gi"}, capacity=asked) == ["pool/c"]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, ["c"]), (2, ["a", "b"]), (3, ["d", "e", "f"])],
)
def test_whole_devices_come_from_the_smallest_root_that_is_large_enough(
    count: int, expected: list[str]
) -> None:
    roots = {"a": "two", "b": "two", "c": "one", "d": "three", "e": "three", "f": "three"}
    devices = [Device(name, {"resource.kubernetes.io/pcieRoot": root}) for name, root in roots.items()]
    assert allocated(plain(*devices), count=count) == [f"pool/{one}" for one in expected]


SEEDS = tuple(itertools.chain(range(40), range(1000, 1040)))
"""Random fleets: enough that every kind of device is among them, in a second or two."""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_served_in_this_order_is_valid_and_as_much_as_in_the_other(seed: int) -> None:
    question = random_question(seed)
    first, other = allocated_by(question, first_fit), allocated_by(question, LeastLoss())
    if first is None or other is None:
        return
    assert isinstance(first, Refusal) == isinstance(other, Refusal)
    if not isinstance(other, Refusal):
        assert not problems(question, [short(one) for one in other])


def allocated_by(question: dict[str, Any], order: CandidateOrder) -> tuple[Allocation, ...] | Refusal | None:
    """What an order comes to; None where a selector has no value for a device that it came to."""
    node, claims, holders = taken_apart(question, order)
    try:
        return node.allocate(claims, HeldDevices.of(holders.values()))
    except ClaimError:
        return None
