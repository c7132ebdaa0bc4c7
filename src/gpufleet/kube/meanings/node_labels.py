"""Labels of nodes by which feature discovery names the GPUs and their driver."""

from collections.abc import Iterable, Mapping

from gpufleet.model.cuda_compatibility import DriverVersion, parse_driver
from gpufleet.model.gpu_catalogue import Vendor

PRODUCTS = {
    Vendor.NVIDIA: "nvidia.com/gpu.product",
    Vendor.AMD: "amd.com/gpu.product-name",
    Vendor.INTEL: "gpu.intel.com/product",
}
"""The label that names the product, as each maker's own discovery writes it."""

NVIDIA_PRODUCT = PRODUCTS[Vendor.NVIDIA]
PRODUCT_LABELS = tuple(PRODUCTS.values())
"""In the order in which they are looked for: a node with cards of several makers is told by the first."""

MEMORY_LABELS = ("nvidia.com/gpu.memory",)
"""Memory of one card in MiB; other makers do not tell it in one number."""

FULL_DRIVER = "nvidia.com/cuda.driver-version.full"
DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver-version.{part}" for part in ("major", "minor", "revision"))
# Written by NVIDIA's discovery before 0.15, and beside the others since.
OLDER_DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
DRIVER_LABELS = (FULL_DRIVER, *DRIVER_PARTS, *OLDER_DRIVER_PARTS)


def labelled_driver(labels: Mapping[str, str]) -> DriverVersion | None:
    """The version of a node's NVIDIA driver, as far as its labels tell."""
    full = labels.get(FULL_DRIVER)
    if full is not None:
        return parse_driver(full)
    return _joined(labels, DRIVER_PARTS) or _joined(labels, OLDER_DRIVER_PARTS)


def _joined(labels: Mapping[str, str], names: Iterable[str]) -> DriverVersion | None:
    parts = [labels[name] for name in names if labels.get(name)]
    return parse_driver(".".join(parts))
