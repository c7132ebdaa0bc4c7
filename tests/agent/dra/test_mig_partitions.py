"""Partitionable devices of a card: exactly what can exist together fits together, in each of its layouts."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from gpufleet.agent.dra.device_health import HealthSource
from gpufleet.agent.dra.device_pools import DevicePool
from gpufleet.agent.dra.mig_partitions import partitions
from gpufleet.agent.dra.offered_device import OfferedDevice
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import MigFacts
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.preference import CandidateOrder, LeastLoss, first_fit
from gpufleet.dra_allocation.results import AllocatedDevice, Allocation, Refusal
from gpufleet.dra_allocation.slices import DeviceId
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.quantity import parse_quantity
from tests.agent.dra.claims import a_claim, allocator_of, given, of_profile
from tests.agent.dra.mig_card import DRIVER, POOL, cut_up, slices_of_card
from tests.agent.node_values import NODE, a_gpu, a_node


def amounts(device: OfferedDevice) -> Counter[str]:
    """What a device draws, in nano units by counter."""
    (use,) = device.written.consumes_counters
    return Counter({name: parse_quantity(one.value).nano for name, one in use.counters.items()})


def profile_and_start(device: OfferedDevice) -> tuple[int, str] | None:
    """Where and what an instance is; None for the whole card."""
    profile = device.written.attributes.get("profile")
    if profile is None or profile.string is None:
        return None
    return int(device.name.rpartition("-")[2]), profile.string


def test_the_whole_card_and_each_profile_at_each_place_are_devices() -> None:
    """The count of NVIDIA's driver: 7 of 1g, 7 with media extensions, 4 double, 3, 2, 1, 1, and the card."""
    _, counters, devices = cut_up("H100-80GB")
    assert len({one.name for one in devices}) == 26
    assert devices[-1].name == "gpu-0"
    assert counters.name == "gpu-0-counter-set"
    by_name = {one.name: one for one in devices}
    large = by_name["gpu-0-mig-3g40gb-9-4"]
    (use,) = large.written.consumes_counters
    assert {name: one.value for name, one in use.counters.items()} == {
        "memory": "40448Mi",
        "multiprocessors": "60",
        "copy-engines": "3",
        "decoders": "3",
        **{f"memory-slice-{number}": "1" for number in (4, 5, 6, 7)},
    }


@pytest.mark.parametrize(("board", "count"), [("H100-80GB", 722), ("A30", 25)])
def test_exactly_the_layouts_of_the_board_fit_into_its_counters(board: str, count: int) -> None:
    geometry, counters, devices = cut_up(board)
    there = Counter({name: parse_quantity(one.value).nano for name, one in counters.counters.items()})
    plain = {profile.name for profile in geometry.plain_profiles}
    drawn = {
        place: amounts(device)
        for device in devices
        if (place := profile_and_start(device)) is not None and place[1] in plain
    }
    fitting = [layout for layout in _fitting(tuple(sorted(drawn)), drawn, there) if layout]
    assert len(fitting) == count
    layouts = {tuple((one.start, one.profile) for one in layout) for layout in geometry.layouts() if layout}
    assert set(fitting) == layouts


Place = tuple[int, str]
Order = tuple[str, ...]


def _fitting(
    places: tuple[Place, ...], drawn: dict[Place, Counter[str]], left: Counter[str]
) -> Iterator[tuple[Place, ...]]:
    """Every set of devices that draws no more than there is."""
    yield ()
    for at, place in enumerate(places):
        if all(amount <= left[name] for name, amount in drawn[place].items()):
            rest = left - drawn[place]
            yield from ((place, *more) for more in _fitting(places[at + 1 :], drawn, rest))


def test_the_whole_card_fits_beside_nothing() -> None:
    _, counters, devices = cut_up("H100-80GB")
    there = {name: parse_quantity(one.value).nano for name, one in counters.counters.items()}
    whole = amounts(devices[-1])
    for device in devices[:-1]:
        both = whole + amounts(device)
        assert any(amount > there[name] for name, amount in both.items())


def test_of_instances_with_media_extensions_a_card_has_one() -> None:
    """As NVIDIA's listing of profiles has it: at most one instance of 1g.10gb+me on a card."""
    held = [_holding(["gpu-0-mig-1g10gb-me-20-4"])]
    refused = given(slices_of_card("H100-80GB"), a_claim(of_profile("media", "1g.10gb+me")), held=held)
    assert isinstance(refused, str)
    plain = given(slices_of_card("H100-80GB"), a_claim(of_profile("plain", "1g.10gb")), held=held)
    assert plain == [["gpu-0-mig-1g10gb-19-5"]]


def test_an_instance_out_of_service_taints_its_place_alone() -> None:
    made = MigFacts("MIG-a", "2g.20gb", 2, 1, 0)
    card = a_gpu("GPU-0", minor=0, mig=(made,), sick_instances={"MIG-a": "Xid 48: two bits of memory"})
    _, devices = partitions(card, BOARDS[GpuModelName("H100-80GB")], None)
    tainted = {one.name: one.written.taints[0].value for one in devices if one.written.taints}
    assert tainted == {"gpu-0-mig-2g20gb-14-2": "48"}
    pool = DevicePool(DRIVER, NODE, devices)
    health = HealthSource(Topic(a_node(card)), Topic((pool,))).of(DRIVER)
    assert [one.device for one in health if one.status == "UNHEALTHY"] == ["gpu-0-mig-2g20gb-14-2"]


def test_an_instance_keeps_kubernetes_from_the_whole_card() -> None:
    held = [_holding(["gpu-0-mig-1g10gb-19-4"])]
    refused = given(slices_of_card("H100-80GB"), a_claim(of_profile("all", "7g.80gb")), held=held)
    assert isinstance(refused, str)


@pytest.mark.parametrize("order", [first_fit, LeastLoss()], ids=["kubernetes", "least loss"])
def test_in_this_order_a_card_is_filled_in_392_of_424_orders_of_arrival(order: CandidateOrder) -> None:
    """By name, as NVIDIA's driver lists them, it fills 287; no rule for one card fills more than 393."""
    geometry = BOARDS[GpuModelName("H100-80GB")]
    packable = {tuple(sorted(one.profile for one in layout)) for layout in geometry.layouts() if layout}
    arrivals = {one for profiles in packable for one in itertools.permutations(profiles)}
    allocator = allocator_of(slices_of_card("H100-80GB"), order)
    placed: dict[Order, Allocation] = {(): _holding(())}
    for one in sorted(arrivals, key=len):
        _place_last(one, allocator, placed)
    assert len(arrivals) == 424
    assert len(placed.keys() & arrivals) == 392


def _place_last(order: Order, allocator: Allocator, placed: dict[Order, Allocation]) -> None:
    """Serve the last of these arrivals where all before it were served."""
    before = placed.get(order[:-1])
    if before is None:
        return
    found = allocator.allocate([a_claim(of_profile("mig", order[-1]))], HeldDevices.of([before]))
    if not isinstance(found, Refusal):
        placed[order] = Allocation(before.devices + found[0].devices)


def _holding(names: Iterable[str]) -> Allocation:
    devices = [AllocatedDevice("r", DeviceId(DRIVER, POOL, name)) for name in names]
    return Allocation(tuple(devices))
