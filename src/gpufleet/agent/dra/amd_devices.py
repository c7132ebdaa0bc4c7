"""AMD's cards and their partitions as devices, by the names of its driver gpu.amd.com.

A card that is partitioned is its partitions. A card without nodes of /dev/dri has no name there and is left
out: its programs could not use it either.
"""

import re
from collections.abc import Iterator

from gpufleet.agent.dra.health_taints import health_taints
from gpufleet.agent.dra.offered_device import (
    PCI_BUS_ID,
    OfferedDevice,
    attributes,
    bus_id,
    capacities,
)
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import Driver, GpuFacts, MigFacts
from gpufleet.dra_allocation.slices import PCIE_ROOT
from gpufleet.kube.objects.resource_slices import WrittenDevice

DRIVER = "gpu.amd.com"
_CARD = re.compile(r"/dev/dri/card([0-9]+)")
_RENDER = re.compile(r"/dev/dri/renderD([0-9]+)")


def amd_devices(gpu: Gpu, driver: Driver | None, pcie_root: str = "") -> Iterator[OfferedDevice]:
    """The card, or its partitions."""
    for part in gpu.facts.mig or (None,):
        name = _name(gpu.facts, part)
        if name:
            yield _device(gpu, part, name, driver, pcie_root)


def _name(facts: GpuFacts, part: MigFacts | None) -> str:
    """By the numbers of its nodes; a partition without a node of a card has its card's number."""
    nodes = facts.device_nodes if part is None else part.device_nodes
    render = next((found[1] for node in nodes if (found := _RENDER.fullmatch(node))), None)
    own = (found[1] for node in (*nodes, *facts.device_nodes) if (found := _CARD.fullmatch(node)))
    card = next(own, None if facts.minor is None else str(facts.minor))
    return "" if render is None or card is None else f"gpu-{card}-{render}"


def _device(
    gpu: Gpu, part: MigFacts | None, name: str, driver: Driver | None, pcie_root: str
) -> OfferedDevice:
    facts = gpu.facts
    simd_units = facts.simd_units
    if part is not None and simd_units is not None:
        # Partitions of a card are equal, and its units are those of all of them.
        simd_units //= len(facts.mig)
    written = WrittenDevice(
        name,
        attributes(
            {
                "type": "amdgpu" if part is None else "amdgpu-partition",
                "deviceID": None if facts.pci_device is None else f"0x{facts.pci_device:04x}",
                "productName": facts.product.replace(" ", "_"),
                "partitionProfile": facts.partitioning if part is None else part.profile,
                PCI_BUS_ID: bus_id(facts.pci_bus_id),
                PCIE_ROOT: pcie_root,
            },
            {"driverVersion": None if driver is None else driver.version},
            {"numaNode": facts.numa_node},
        ),
        capacities(
            {
                "computeUnits": facts.multiprocessors if part is None else part.multiprocessors,
                "simdUnits": simd_units,
            },
            facts.memory_mib if part is None else part.memory_mib,
        ),
        taints=health_taints(DRIVER, gpu, "" if part is None else part.uuid),
    )
    return OfferedDevice(gpu.uuid, written, "" if part is None else part.uuid)
