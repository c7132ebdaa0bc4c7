"""A card that can be cut, as partitionable devices: itself and each profile at each place it may begin.

All of them draw from one set of counters, so that no two that overlap are given at once: places conflict
where they share a memory slice, of which each has a counter. Names of counters, capacities and devices are
those of NVIDIA's driver for instances that are made when a claim asks for them.

A card whose mode is switched by a reset has the device that its mode allows: the whole card out of MIG mode,
and instances in it.

Kubernetes takes the first device of a slice that fits. The order here is the one with which most orders of
arrival fill a card whole; by name, as NVIDIA's driver has it, far fewer do (designs/0003-node-agent.md).
"""

import re
from collections.abc import Iterator, Mapping

from gpufleet.agent.dra.health_taints import health_taints
from gpufleet.agent.dra.nvidia_devices import (
    DRIVER,
    card_name,
    common_attributes,
    instance_attributes,
    placement_name,
)
from gpufleet.agent.dra.offered_device import MadeDevice, OfferedDevice, attributes, capacities
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import Driver
from gpufleet.kube.objects.resource_slices import (
    WrittenCapacity,
    WrittenCounter,
    WrittenCounterSet,
    WrittenCounterUse,
    WrittenDevice,
)
from gpufleet.model import gpu_model
from gpufleet.model.mig import MigGeometry, MigInstance, MigProfile
from gpufleet.model.mig_boards import BOARDS

MODE_BY_RESET = "Ampere"
"""The architecture whose cards switch their MIG mode by a reset, which the agent cannot do."""

SLICE_VALUE = WrittenCounter("1")
"""What there is of a memory slice."""

MEDIA = "ofa-engines"
"""The counter of the engine for optical flow, of which instances with media extensions need the only one."""

START_ORDERS: Mapping[tuple[int, int], tuple[int, ...]] = {
    # Of a board with eight memory slices, by the slices that a profile takes.
    (8, 1): (4, 5, 3, 2, 1, 0, 6),
    (8, 2): (6, 4, 2, 0),
    (8, 4): (4, 0),
}
"""Where instances begin first; the last place first where nothing is said."""

TWO_COMPUTE_SLICES: tuple[int, ...] = (4, 2, 0)
"""Where instances with two of eight memory slices and two compute slices may begin."""


def is_switched_by_reset(gpu: Gpu) -> bool:
    """Whether the MIG mode of a card is pending until a reset."""
    model = gpu_model.find(gpu.facts.product)
    return model is not None and model.architecture == MODE_BY_RESET


def geometry_to_cut(gpu: Gpu) -> MigGeometry | None:
    """What a card can be cut into as it is; None where it can be given as a whole alone."""
    model = gpu_model.find(gpu.facts.product)
    if model is None or gpu.facts.mig_enabled is None:
        return None
    if is_switched_by_reset(gpu) and not gpu.facts.mig_enabled:
        return None
    return BOARDS.get(model.name)


def partitions(
    gpu: Gpu, geometry: MigGeometry, driver: Driver | None, pcie_root: str = ""
) -> tuple[WrittenCounterSet, tuple[OfferedDevice, ...]]:
    """The counters of a card and its devices in the order in which to take them; the whole card is last."""
    facts = gpu.facts
    common = common_attributes(facts, driver, pcie_root)
    counters = f"{card_name(facts)}-counter-set"
    whole = _whole_capacity(geometry, facts.memory_mib)
    everything = _counters(whole, range(geometry.memory_slices))
    for profile in geometry.profiles:
        everything |= _media(profile)
    devices = [
        OfferedDevice(
            gpu.uuid,
            WrittenDevice(
                placement_name(facts, profile.name, profile.gpu_instance_profile, start),
                common | instance_attributes(facts, profile.name),
                capacity := _capacity(profile),
                (WrittenCounterUse(counters, _counters(capacity, _taken(profile, start)) | _media(profile)),),
                taints=health_taints(
                    DRIVER, gpu, _instance_at(gpu, place := MigInstance(start, profile.name))
                ),
            ),
            made=MadeDevice(place, profile.slices(start)),
        )
        for profile, start in _places(geometry)
    ]
    if not is_switched_by_reset(gpu):
        written = WrittenDevice(
            card_name(facts),
            common | attributes({"type": "gpu", "uuid": facts.uuid}),
            whole,
            (WrittenCounterUse(counters, everything),),
            taints=health_taints(DRIVER, gpu),
        )
        all_slices = (1 << geometry.memory_slices) - 1
        devices.append(OfferedDevice(gpu.uuid, written, made=MadeDevice(None, all_slices)))
    return WrittenCounterSet(counters, everything), tuple(devices)


def _instance_at(gpu: Gpu, place: MigInstance) -> str:
    """The UUID of the instance that is at a place; "" where none is."""
    found = gpu.instance_at(place)
    return "" if found is None else found.uuid


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


def _media(profile: MigProfile) -> dict[str, WrittenCounter]:
    return {MEDIA: SLICE_VALUE} if profile.media_extensions else {}


def _dashed(name: str) -> str:
    """A capacity's name as counters have it: copyEngines is copy-engines."""
    return re.sub("([a-z])([A-Z])", r"\1-\2", name).lower()
