"""Names of Intel's GPUs by PCI device id.

The ids of GPUs for data centres and workstations and their names are those of Intel's compute runtime
and of the kernel's list (include/drm/intel/pciids.h). A GPU that is not here is named by its id.
"""

_FLEX, _MAX, _ARC, _BATTLEMAGE = "Xe-HPG", "Xe-HPC", "Xe-HPG", "Xe2-HPG"

_PRODUCTS = {
    **dict.fromkeys((0x56C0, 0x56C2), ("Intel Data Center GPU Flex 170", _FLEX)),
    0x56C1: ("Intel Data Center GPU Flex 140", _FLEX),
    **dict.fromkeys((0x0BD5, 0x0BD6), ("Intel Data Center GPU Max 1550", _MAX)),
    **dict.fromkeys((0x0BD7, 0x0BD8), ("Intel Data Center GPU Max 1350", _MAX)),
    **dict.fromkeys((0x0BD9, 0x0BDA, 0x0BDB), ("Intel Data Center GPU Max 1100", _MAX)),
    0x56A0: ("Intel Arc A770 Graphics", _ARC),
    0x56A1: ("Intel Arc A750 Graphics", _ARC),
    0x56A5: ("Intel Arc A380 Graphics", _ARC),
    0x56A6: ("Intel Arc A310 Graphics", _ARC),
    0xE20B: ("Intel Arc B580 Graphics", _BATTLEMAGE),
    0xE20C: ("Intel Arc B570 Graphics", _BATTLEMAGE),
    0xE211: ("Intel Arc Pro B60 Graphics", _BATTLEMAGE),
    0xE212: ("Intel Arc Pro B50 Graphics", _BATTLEMAGE),
}


def product(device_id: int | None) -> tuple[str, str | None]:
    """The name and the architecture of a GPU; the architecture is None where the table lacks the GPU."""
    found = None if device_id is None else _PRODUCTS.get(device_id)
    return found or (f"Intel GPU 0x{device_id or 0:04x}", None)
