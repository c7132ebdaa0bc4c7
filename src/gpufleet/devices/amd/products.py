"""Names of AMD's data centre GPUs by PCI device id, where the GPU's own memory does not hold one.

The names are those of libdrm's amdgpu.ids. A GPU that is not here is named by its id.
"""

_PRODUCTS = {
    0x738C: "AMD Instinct MI100",
    0x738E: "AMD Instinct MI100",
    0x7408: "AMD Instinct MI250X",
    0x740C: "AMD Instinct MI250X / MI250",
    0x740F: "AMD Instinct MI210",
    0x74A0: "AMD Instinct MI300A",
    0x74A1: "AMD Instinct MI300X",
    0x74A2: "AMD Instinct MI308X",
    0x74A5: "AMD Instinct MI325X",
    0x74B5: "AMD Instinct MI300X VF",
    0x74B9: "AMD Instinct MI325X VF",
    0x75A0: "AMD Instinct MI350X",
    0x75A3: "AMD Instinct MI355X",
}


def product(device_id: int | None) -> str:
    """The name of a GPU."""
    return _PRODUCTS.get(device_id or 0) or f"AMD GPU 0x{device_id or 0:04x}"
