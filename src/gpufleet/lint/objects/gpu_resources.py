"""Which names of resources stand for GPUs or parts of them, and how much of them is asked for."""

import re

from gpufleet.kube import keys
from gpufleet.model.errors import InputError
from gpufleet.model.quantity import Quantity, parse_quantity
from gpufleet.model.resource_names import GPU_RESOURCES

NVIDIA_SHARED = "nvidia.com/gpu.shared"
OWN_SHARE = "gpufleet.io/gpu-share"
LEGACY_NVIDIA = "alpha.kubernetes.io/nvidia-gpu"
MIG_PREFIX = "nvidia.com/mig-"
_PARTS = frozenset(
    {
        NVIDIA_SHARED,
        OWN_SHARE,
        LEGACY_NVIDIA,
        "nvidia.com/vgpu",
        "k8s.amazonaws.com/vgpu",
        "volcano.sh/vgpu-number",
    }
)
_WITHOUT_COUNT = re.compile(
    r"nvidia\.com/(gpumem|gpumem-percentage|gpucores)|volcano\.sh/(gpu-memory|vgpu-memory|vgpu-cores)"
    r"|aliyun\.com/gpu-(mem|core\.percentage)"
)
FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory", keys.GPU_FRACTION, keys.GPU_MEMORY)
"""KAI's words and ours for a part of a GPU; pods that use KAI's ask for no resource."""


def is_whole_gpu(name: str) -> bool:
    """Whether each unit of the resource is a GPU of its own (or looks like one, where sharing is hidden)."""
    return name in GPU_RESOURCES or name == LEGACY_NVIDIA


def is_mig(name: str) -> bool:
    """Whether each unit is an instance of one MIG profile."""
    return name.startswith(MIG_PREFIX)


def is_shared(name: str) -> bool:
    """Whether each unit is a share of a GPU that others use at the same time."""
    return name in {NVIDIA_SHARED, OWN_SHARE} or (is_mig(name) and name.endswith(".shared"))


def is_device(name: str) -> bool:
    """Whether units of the resource are counted as devices: whole GPUs, MIG instances, shares."""
    return is_whole_gpu(name) or is_mig(name) or name in _PARTS


def is_gpu(name: str) -> bool:
    """Whether a container that asks for the resource runs on a GPU."""
    return is_device(name) or _WITHOUT_COUNT.fullmatch(name) is not None


def amount(text: str | None) -> Quantity | None:
    """The quantity, or None where the text is none."""
    if text is None:
        return None
    try:
        return parse_quantity(text)
    except InputError:
        return None
