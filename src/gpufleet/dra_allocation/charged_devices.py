"""What quota counts of a device that a claim has or may get: GPUs of a model, memory, and slices of cards.

A card counts as one GPU, a share of it as the part of its capacity that it takes. An instance of a card
counts by its compute slices, like one that is asked for by name as ``nvidia.com/mig-3g.40gb``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpufleet.dra_allocation.slices import Device
from gpufleet.model import gpu_model
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gpu_drivers import is_gpu_driver
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.quantity import Quantity

MEMORY = "memory"
MIB = 1 << 20
# As in 3g.40gb, or 1c.3g.40gb for a compute instance of it.
PROFILE = re.compile(r"^(?:(\d+)c\.)?(\d+)g\.")
MIG = "mig"


@dataclass(frozen=True, slots=True)
class ChargedDevice:
    """A device of a class as quota counts it. What is no GPU counts by its class alone."""

    class_name: str
    model: GpuModelName | None = None
    gpu_milli: int = 0
    memory_mib: int = 0
    mig_slices: int = 0


@dataclass(frozen=True, slots=True)
class ChargedChoice:
    """So many devices of one kind, which a request may come to have."""

    device: ChargedDevice
    count: int


ChargedRequest = tuple[ChargedChoice, ...]
"""What a request may come to have: one of these. Quota counts the most of each resource."""


def charged_device(
    driver: str, device: Device, class_name: str, taken: Mapping[str, Quantity] | None = None
) -> ChargedDevice:
    """How a device counts of which ``taken`` is taken, or all of it."""
    if not is_gpu_driver(driver):
        return ChargedDevice(class_name)
    if device.attributes.get("type") == MIG:
        matched = PROFILE.match(str(device.attributes.get("profile", "")))
        return ChargedDevice(class_name, mig_slices=int(matched[1] or matched[2]) if matched else 0)
    amounts = dict(taken or {}) if device.is_shareable else {}
    whole = device.capacity.get(MEMORY)
    memory = amounts.get(MEMORY, whole.value if whole is not None else Quantity())
    return ChargedDevice(class_name, _model(device), _part_milli(device, amounts), -(-memory.value() // MIB))


def _part_milli(device: Device, taken: Mapping[str, Quantity]) -> int:
    """The largest part of any capacity that is taken; all of the device where none is said to be."""
    parts = [
        -(-WHOLE_GPU_MILLI * amount.nano // device.capacity[name].value.nano)
        for name, amount in taken.items()
        if name in device.capacity and device.capacity[name].value.nano > 0
    ]
    return min(WHOLE_GPU_MILLI, max(parts, default=WHOLE_GPU_MILLI))


def _model(device: Device) -> GpuModelName | None:
    # AMD's driver writes lines where the product has spaces.
    name = str(device.attributes.get("productName", "")).replace("_", " ")
    known = gpu_model.find(name) if name else None
    return known.name if known is not None else GpuModelName(name) if name else None
