"""NVIDIA's cards and MIG instances as devices, by the names of its driver gpu.nvidia.com.

A card in MIG mode is its instances, as in that driver: the card itself is no device then. An instance that is
only a part of its GPU instance ("1c.3g.40gb") is left out, as there.
"""

from collections.abc import Iterator

from gpufleet.agent.dra.health_taints import health_taints
from gpufleet.agent.dra.offered_device import (
    PCI_BUS_ID,
    Attributes,
    OfferedDevice,
    attributes,
    bus_id,
    capacities,
)
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import Driver, GpuFacts, MigFacts
from gpufleet.dra_allocation.slices import NUMA_NODE, PCIE_ROOT
from gpufleet.kube.objects.resource_slices import WrittenDevice
from gpufleet.model.gpu_model import find
from gpufleet.model.mig import MigProfile
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError

DRIVER = "gpu.nvidia.com"
# In front of the name of a profile that has a part of its GPU instance's compute alone.
_PART_OF_INSTANCE = "c."


def nvidia_devices(gpu: Gpu, driver: Driver | None, pcie_root: str = "") -> Iterator[OfferedDevice]:
    """The card, or the instances that it is cut into."""
    facts = gpu.facts
    common = common_attributes(facts, driver, pcie_root)
    if not facts.mig_enabled:
        yield OfferedDevice(
            gpu.uuid,
            WrittenDevice(
                card_name(facts),
                common | attributes({"type": "gpu", "uuid": facts.uuid}),
                capacities({}, facts.memory_mib),
                taints=health_taints(DRIVER, gpu),
            ),
        )
        return
    for one in facts.mig:
        if _PART_OF_INSTANCE not in one.profile:
            yield _instance(gpu, one, common)


def card_name(facts: GpuFacts) -> str:
    """A card by its minor number, as the driver has it; by its index where that is not told."""
    return f"gpu-{facts.index if facts.minor is None else facts.minor}"


def placement_name(facts: GpuFacts, profile: str, number: int | None, start: int) -> str:
    """A profile at a place of a card; ``number`` is the driver's for the profile, where it is known."""
    plain = profile.lower().replace(".", "").replace("+", "-")
    parts = (card_name(facts), "mig", plain, *(() if number is None else (str(number),)), str(start))
    return "-".join(parts)


def known_profile(facts: GpuFacts, name: str) -> MigProfile | None:
    """What the table of boards says of a profile; None where it does not know the board or the profile."""
    model = find(facts.product)
    board = None if model is None else BOARDS.get(model.name)
    if board is None:
        return None
    try:
        return board.profile(name)
    except InputError:
        return None


def common_attributes(facts: GpuFacts, driver: Driver | None, pcie_root: str) -> Attributes:
    """What a card and all parts of it have in common."""
    capability = facts.compute_capability
    return attributes(
        {
            "productName": facts.product,
            "brand": facts.brand,
            "architecture": facts.architecture,
            PCI_BUS_ID: bus_id(facts.pci_bus_id),
            PCIE_ROOT: pcie_root,
        },
        {
            "cudaComputeCapability": None if capability is None else ".".join(map(str, capability)),
            "driverVersion": None if driver is None else driver.version,
            "cudaDriverVersion": None if driver is None else driver.runtime_version,
        },
        {NUMA_NODE: facts.numa_node},
    )


def instance_attributes(facts: GpuFacts, profile: str) -> Attributes:
    """What an instance has beside that."""
    return attributes({"type": "mig", "parentUUID": facts.uuid, "profile": profile})


def _instance(gpu: Gpu, one: MigFacts, common: Attributes) -> OfferedDevice:
    facts, profile = gpu.facts, known_profile(gpu.facts, one.profile)
    number = None if profile is None else profile.gpu_instance_profile
    # Without a place the number of the GPU instance tells one from another.
    place = one.gpu_instance if one.start is None else one.start
    counts: dict[str, int | None] = {
        "multiprocessors": one.multiprocessors,
        "copyEngines": one.engines.copy,
        "decoders": one.engines.decoders,
        "encoders": one.engines.encoders,
        "jpegEngines": one.engines.jpeg,
        "ofaEngines": one.engines.optical_flow,
    }
    if profile is not None and one.start is not None:
        slices = range(one.start, one.start + profile.memory_slices)
        counts |= {f"memorySlice{number}": 1 for number in slices}
    written = WrittenDevice(
        placement_name(facts, one.profile, number, place),
        common | instance_attributes(facts, one.profile) | attributes({"uuid": one.uuid}),
        capacities(counts, one.memory_mib),
        taints=health_taints(DRIVER, gpu, one.uuid),
    )
    return OfferedDevice(gpu.uuid, written, one.uuid)
