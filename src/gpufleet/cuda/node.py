"""What is known of a node: its driver, its GPU, and what follows from them by the tables.

``requirement`` tells these facts to the runtimes' rules; ``toolkit`` and ``architecture`` use them
directly.
"""

import enum

import msgspec

from gpufleet.cuda.tables import Brand, tables
from gpufleet.model import gpu_model
from gpufleet.model.cuda_compatibility import DriverVersion, parse_driver, write_driver
from gpufleet.model.gpu_catalogue import GpuModel, Vendor
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.model_errors import InputError


class NodeKind(enum.Enum):
    """The market that a card is made for: on that depends forward compatibility."""

    DATA_CENTRE = "data centre"
    WORKSTATION = "workstation"
    CONSUMER = "consumer"


class NodeFacts(msgspec.Struct, frozen=True):
    """A node with one kind of GPU. None is not known.

    ``brand`` is NVML's, as ``nvidia-smi -q`` shows it; where it is None, all brands that the card may have
    are tried.
    """

    driver: DriverVersion | None
    gpu: GpuModel | None
    brand: Brand | None = None

    @property
    def driver_text(self) -> str:
        """The driver as NVIDIA writes it."""
        return "unknown" if self.driver is None else write_driver(self.driver)

    @property
    def capability(self) -> str | None:
        """The compute capability of the GPU."""
        if self.gpu is None or self.gpu.vendor is not Vendor.NVIDIA:
            return None
        return self.gpu.compute_target or None

    @property
    def kind(self) -> NodeKind | None:
        """The market that the card is made for."""
        if self.gpu is None or self.gpu.vendor is not Vendor.NVIDIA:
            return None
        words = " ".join((str(self.gpu.name), *self.gpu.labels)).casefold()
        if any(word in words for word in tables().forward.consumer):
            return NodeKind.CONSUMER
        if any(word in words for word in tables().forward.workstation):
            return NodeKind.WORKSTATION
        return NodeKind.DATA_CENTRE

    @property
    def reported_cuda(self) -> str | None:
        """The version of CUDA that the driver says it has."""
        if self.driver is None:
            return None
        return tables().reported.cuda_by_branch.get(self.driver[0])

    @property
    def brands(self) -> tuple[Brand, ...]:
        """The brands that NVML may tell for the GPU; all where the GPU is not known."""
        brands = tables().brands
        if self.brand is not None:
            return (self.brand,)
        match self.kind:
            case NodeKind.CONSUMER:
                names = brands.of_consumer
            case NodeKind.WORKSTATION:
                names = brands.of_workstation
            case NodeKind.DATA_CENTRE:
                names = brands.of_data_centre
            case None:
                return brands.rows
        return tuple(row for row in brands.rows if row.name in names)


def read_node(driver: str | None, gpu: str | None, brand: str | None = None) -> NodeFacts:
    """The facts from words that a person typed or labels have. Raises InputError for what cannot be."""
    return NodeFacts(
        None if driver is None else _driver(driver),
        None if gpu is None else _gpu(gpu),
        None if brand is None else _brand(brand),
    )


def _driver(text: str) -> DriverVersion:
    found = parse_driver(text.strip())
    if found is None:
        raise InputError(
            "not a version of NVIDIA's Linux driver", field="driver", value=text, expected="550.54.15, say"
        )
    return found


def _gpu(text: str) -> GpuModel:
    found = gpu_model.matching(text)
    if not found:
        near = gpu_model.nearest_name(text)
        expected = "A100-80GB, say, or the value of nvidia.com/gpu.product"
        raise InputError(
            "no such GPU in the catalogue",
            field="gpu",
            value=text,
            expected=expected if near is None else f"{near}?",
        )
    # Sizes of one card differ in memory only: what matters here is the same.
    if len({(one.vendor, one.compute_target) for one in found}) > 1:
        names = ", ".join(sorted(str(one.name) for one in found))
        raise InputError("several GPUs are called so", field="gpu", value=text, expected=f"one of {names}")
    if len(found) == 1:
        return found[0]
    return msgspec.structs.replace(found[0], name=GpuModelName(found[0].family), memory_mib=None)


def _brand(text: str) -> Brand:
    found = tables().brands.named(text)
    if found is None:
        names = ", ".join(row.name for row in tables().brands.rows)
        raise InputError("no brand that NVML tells", field="brand", value=text, expected=f"one of {names}")
    return found
