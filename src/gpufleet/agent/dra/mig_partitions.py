"""A card that can be cut, as partitionable devices: itself and each profile at each place it may begin.

All of them draw from one set of counters, so that no two that overlap are given at once: places conflict
where they share a memory slice, of which each has a counter. Names of counters, capacities and devices are
those of NVIDIA's driver for instances that are made when a claim asks for them.

Kubernetes takes the first device of a slice that fits. The order here is the one with which most orders of
arrival fill a card whole; by name, as NVIDIA's driver has it, far fewer do (designs/0003-node-agent.md).
"""

import re
from collections.abc import Iterator, Mapping

from gpufleet.agent.dra.nvidia_devices import (
    card_name,
    common_attributes,
    instance_attributes,
    placement_name,
)
from gpufleet.agent.dra.offered_device import OfferedDevice, attributes, capacities
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import Driver
from gpufleet.kube.objects.resource_slices import (
    WrittenCapacity,
    WrittenCounter,
    WrittenCounterSet,
    WrittenCounterUse,
    WrittenDevice,
)
from gpufleet.model.mig import MigGeometry, MigProfile

SLICE_VALUE = WrittenCounter("1")
"""What there is of a memory slice."""

START_ORDERS: Mapping[tuple[int, int], tuple[int, ...]] = {
    # Of a board with eight memory slices, by the slices that a profile takes.
    (8, 1): (4, 5, 3, 2, 1, 0, 6),
    (8, 2): (6, 4, 2, 0),
    (8, 4): (4, 0),
}
"""Where instances begin first; the last place first where nothing is said."""

TWO_COMPUTE_SLICES: tuple[int, ...] = (4, 2, 0)
"""Where instances with two of eight memory slices and two compute slices may begin."""


def partitions(
    gpu: Gpu, geometry: MigGeometry, driver: Driver | None
) -> tuple[WrittenCounterSet, tuple[OfferedDevice, ...]]:
    """The counters of a card and its devices in the order in which to take them; the whole card is last."""
    facts = gpu.facts
    common = common_attributes(facts, driver, "")
    counters = f"{card_name(facts)}-counter-set"
    whole = _whole_capacity(geometry, facts.memory_mib)
    everything = _counters(whole, range(geometry.memory_slices))
    devices = [
        WrittenDevice(
            placement_name(facts, profile.name, profile.gpu_instance_profile, start),
            common | instance_attributes(facts, profile.name),
            capacity := _capacity(profile),
            (WrittenCounterUse(counters, _counters(capacity, _taken(profile, start))),),
        )
        for profile, start in _places(geometry)
    ]
    devices.append(
        WrittenDevice(
            card_name(facts),
            common | attributes({"type": "gpu", "uuid": facts.uuid}),
            whole,
            (WrittenCounterUse(counters, everything),),
        )
    )
    return WrittenCounterSet(counters, everything), tuple(OfferedDevice(gpu.uuid, one) for one in devices)


def _places(geometry: MigGeometry) -> Iterator[tuple[MigProfile, int]]:
    for profile in geometry.profiles:
        for start in _starts(geometry, profile):
            yield profile, start


def _starts(geometry: MigGeometry, profile: MigProfile) -> tuple[int, ...]:
    known = START_ORDERS.get((geometry.memory_slices, profile.memory_slices))
    if known is None or set(known) != set(profile.starts):
        return TWO_COMPUTE_SLICES if set(profile.starts) == set(TWO_COMPUTE_SLICES) else profile.starts[::-1]
    return known


def _taken(profile: MigProfile, start: int) -> range:
    return range(start, start + profile.memory_slices)


def _capacity(profile: MigProfile) -> dict[str, WrittenCapacity]:
    counts = {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.copy_engines,
        "decoders": profile.decoders,
    }
    return capacities(counts, profile.memory_mib)


def _whole_capacity(geometry: MigGeometry, memory_mib: int | None) -> dict[str, WrittenCapacity]:
    """All that the largest profile has, which is the card; its memory where the table does not say it."""
    largest = max(geometry.plain_profiles, key=lambda one: one.memory_slices)
    return capacities({}, memory_mib) | _capacity(largest)


def _counters(capacity: Mapping[str, WrittenCapacity], slices: range) -> dict[str, WrittenCounter]:
    amounts = {_dashed(name): WrittenCounter(one.value) for name, one in capacity.items()}
    return amounts | {f"memory-slice-{number}": SLICE_VALUE for number in slices}


def _dashed(name: str) -> str:
    """A capacity's name as counters have it: copyEngines is copy-engines."""
    return re.sub("([a-z])([A-Z])", r"\1-\2", name).lower()
