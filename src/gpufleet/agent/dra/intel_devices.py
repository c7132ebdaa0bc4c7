"""Intel's cards as devices, by the names of its driver gpu.intel.com: PCI address and the maker's number."""

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
from gpufleet.devices.facts import GpuFacts
from gpufleet.dra_allocation.slices import PCIE_ROOT
from gpufleet.kube.objects.resource_slices import WrittenCapacity, WrittenDevice

DRIVER = "gpu.intel.com"
MILLICORES = WrittenCapacity("1k")
"""The compute of a whole card, as the driver counts it; the server writes a thousand so."""

_FAMILY = re.compile(r"\b(Max|Flex|Arc)\b")


def intel_devices(gpu: Gpu, pcie_root: str = "") -> Iterator[OfferedDevice]:
    """The card, where the machine tells its address and number, of which its name is made."""
    facts = gpu.facts
    address, number = bus_id(facts.pci_bus_id), _number(facts)
    if not address or not number:
        return
    family = _FAMILY.search(facts.product)
    written = WrittenDevice(
        f"{re.sub('[:.]', '-', address)}-{number}",
        attributes(
            {
                "model": facts.product,
                "family": None if family is None else family[1],
                "driver": facts.kernel_driver,
                "pciId": number,
                "pciAddress": address,
                PCI_BUS_ID: address,
                PCIE_ROOT: pcie_root,
            }
        ),
        {"millicores": MILLICORES} | capacities({}, facts.memory_mib),
        taints=health_taints(DRIVER, gpu),
    )
    yield OfferedDevice(gpu.uuid, written)


def _number(facts: GpuFacts) -> str:
    return "" if facts.pci_device is None else f"0x{facts.pci_device:04x}"
