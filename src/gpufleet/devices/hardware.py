"""The vendors of this machine's GPUs, told without any vendor's library.

A library that is loaded in vain costs memory, and its complaint would be no news on a machine that has none
of its GPUs. So a backend is used only where its hardware is: a display controller or accelerator on the PCI
bus, or a device node that only that vendor's driver makes (for virtual machines that hide their PCI bus).
"""

from pathlib import Path

from gpufleet.devices.sysfs import entries, number
from gpufleet.model.gpu_catalogue import Vendor

# Numbers of makers in PCI's registry.
PCI_VENDORS = {0x10DE: Vendor.NVIDIA, 0x1002: Vendor.AMD, 0x8086: Vendor.INTEL}
DISPLAY, ACCELERATOR = 0x03, 0x12
"""Base classes of PCI devices (PCI Code and ID Assignment Specification)."""

INTEGRATED = "0000:00:02.0"
"""The PCI address of the graphics inside Intel's processors, which alone are no reason to load a backend."""

# Devices that a driver makes once for all of its GPUs.
NODES = {"nvidiactl": Vendor.NVIDIA, "kfd": Vendor.AMD}


def vendors(sysfs: Path = Path("/sys"), dev: Path = Path("/dev")) -> frozenset[Vendor]:
    """The vendors of the GPUs of this machine."""
    found = {vendor for node, vendor in NODES.items() if (dev / node).exists()}
    for device in entries(sysfs / "bus/pci/devices", ".*"):
        vendor = PCI_VENDORS.get(number(device / "vendor") or 0)
        if vendor is None or device.name == INTEGRATED:
            continue
        # Class, subclass and interface, a byte each: 0x030200 is a display controller for 3D.
        if (number(device / "class") or 0) >> 16 in (DISPLAY, ACCELERATOR):
            found.add(vendor)
    return frozenset(found)
