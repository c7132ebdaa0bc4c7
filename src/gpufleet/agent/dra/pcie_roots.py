"""The PCIe root complex above a card, as the kernel's tree of devices has it."""

import re
from pathlib import Path

from gpufleet.agent.dra.offered_device import bus_id

DEVICES = Path("/sys/bus/pci/devices")
# The first folder of a device's path, below which all devices of one root are.
_ROOT = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")


def root_above(pci_bus_id: str | None, devices: Path = DEVICES) -> str:
    """The root complex, such as pci0000:00; empty where the machine does not tell it."""
    address = bus_id(pci_bus_id)
    if not address:
        return ""
    path = (devices / address).resolve()
    return next((part for part in path.parts if _ROOT.fullmatch(part)), "")
