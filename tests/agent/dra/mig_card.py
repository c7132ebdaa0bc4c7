"""A card as partitionable devices, with its counters."""

from gpufleet.agent.dra.mig_partitions import partitions
from gpufleet.agent.dra.offered_device import OfferedDevice
from gpufleet.devices.facts import Driver
from gpufleet.kube.objects.resource_slices import ResourceSliceSpec, WrittenCounterSet, WrittenPool
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig import MigGeometry
from gpufleet.model.mig_boards import BOARDS
from tests.agent.node_values import NODE, a_gpu

DRIVER = "gpu.nvidia.com"
POOL = f"{NODE}/{DRIVER}/gpu-0"
PRODUCTS = {"H100-80GB": "NVIDIA H100 80GB HBM3", "A30": "NVIDIA A30"}


def cut_up(board: str) -> tuple[MigGeometry, WrittenCounterSet, tuple[OfferedDevice, ...]]:
    """A board with its counters and devices."""
    geometry = BOARDS[GpuModelName(board)]
    card = a_gpu("GPU-0", product=PRODUCTS[board], minor=0)
    return geometry, *partitions(card, geometry, Driver(Vendor.NVIDIA, "580.95.05", "13.0"))


def slices_of_card(board: str, node: str = NODE) -> list[ResourceSliceSpec]:
    """Counters and devices, each in a slice of its own, as Kubernetes since 1.35 wants them."""
    _, counters, devices = cut_up(board)
    part = WrittenPool(f"{node}/{DRIVER}/gpu-0", 1, 2)
    return [
        ResourceSliceSpec(DRIVER, part, node_name=node, shared_counters=(counters,)),
        ResourceSliceSpec(DRIVER, part, node_name=node, devices=tuple(one.written for one in devices)),
    ]
