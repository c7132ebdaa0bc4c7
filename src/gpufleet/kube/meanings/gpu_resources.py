"""Which names of resources stand for GPUs or parts of them."""

import enum
import re
from functools import lru_cache

from gpufleet.kube import keys
from gpufleet.model import gpu_model
from gpufleet.model.label_advice import nearest
from gpufleet.model.resource_names import (
    AMD_GPU,
    GPU_RESOURCES,
    INTEL_GPU_I915,
    INTEL_GPU_XE,
    NVIDIA_GPU,
    NVIDIA_SHARED,
    is_mig_instance,
    mig_resource,
)

OLD_NVIDIA_GPU = "alpha.kubernetes.io/nvidia-gpu"
"""Before device plugins, in Kubernetes 1.9 and older."""

_SHARED_SUFFIX = ".shared"
"""What NVIDIA's device plugin appends to the name of a resource that is shared in time."""


class ResourceUnit(enum.Enum):
    """What one unit of a resource is."""

    GPU = "a GPU of its own, or what looks like one where sharing is hidden"
    INSTANCE = "an instance of one MIG profile"
    SHARE = "a share of a GPU that others use at the same time"
    PART = "a part of a GPU that is counted as a device"
    MEASURE = "memory or compute of a share: it tells how large the share is, and counts no device"


_VENDORS = {"": NVIDIA_GPU, "nvidia": NVIDIA_GPU, "amd": AMD_GPU, "intel": INTEL_GPU_XE}
_INSTANCE = re.compile(r"nvidia\.com/mig[-_.]?(\d+)g[-_.](\d+)gb((?:[.+-][a-z.]+)?)", re.IGNORECASE)
"""A MIG profile with its parts joined in any way; right is nvidia.com/mig-1g.10gb alone."""

UNITS = {
    NVIDIA_GPU: ResourceUnit.GPU,
    AMD_GPU: ResourceUnit.GPU,
    INTEL_GPU_I915: ResourceUnit.GPU,
    INTEL_GPU_XE: ResourceUnit.GPU,
    OLD_NVIDIA_GPU: ResourceUnit.GPU,
    NVIDIA_SHARED: ResourceUnit.SHARE,
    keys.GPU_SHARE: ResourceUnit.SHARE,
    "nvidia.com/vgpu": ResourceUnit.PART,
    "k8s.amazonaws.com/vgpu": ResourceUnit.PART,
    keys.VOLCANO_NUMBER: ResourceUnit.PART,
    keys.VOLCANO_MEMORY: ResourceUnit.MEASURE,
    keys.VOLCANO_MEMORY_PERCENT: ResourceUnit.MEASURE,
    keys.VOLCANO_CORES: ResourceUnit.MEASURE,
    "volcano.sh/gpu-memory": ResourceUnit.MEASURE,
    keys.HAMI_MEMORY: ResourceUnit.MEASURE,
    keys.HAMI_MEMORY_PERCENT: ResourceUnit.MEASURE,
    keys.HAMI_CORES: ResourceUnit.MEASURE,
    "aliyun.com/gpu-mem": ResourceUnit.MEASURE,
    "aliyun.com/gpu-core.percentage": ResourceUnit.MEASURE,
}
"""Every resource but those of MIG, of which each profile has its own."""


@lru_cache(maxsize=4096)
def unit_of(name: str) -> ResourceUnit | None:
    """What a unit of the resource is; None where it is no GPU."""
    if is_mig_instance(name):
        return ResourceUnit.SHARE if name.endswith(_SHARED_SUFFIX) else ResourceUnit.INSTANCE
    return UNITS.get(name)


def is_whole_gpu(name: str) -> bool:
    """Whether each unit of the resource is a GPU of its own (or looks like one, where sharing is hidden)."""
    return unit_of(name) is ResourceUnit.GPU


def is_shared(name: str) -> bool:
    """Whether each unit is a share of a GPU that others use at the same time."""
    return unit_of(name) is ResourceUnit.SHARE


def is_device(name: str) -> bool:
    """Whether units of the resource are counted as devices: whole GPUs, MIG instances, shares."""
    return unit_of(name) not in {None, ResourceUnit.MEASURE}


def is_gpu(name: str) -> bool:
    """Whether a container that asks for the resource runs on a GPU."""
    return unit_of(name) is not None


def meant_gpu(name: str) -> str | None:
    """The resource of GPUs that was probably meant by a name that is none any more, or never was."""
    if name == OLD_NVIDIA_GPU:
        return NVIDIA_GPU
    if instance := _INSTANCE.fullmatch(name):
        right = mig_resource(f"{instance[1]}g.{instance[2]}gb{instance[3]}".casefold())
        return None if right == name else right
    if is_gpu(name):
        return None
    near = nearest(name, GPU_RESOURCES)
    if near is not None:
        return near
    domain, _, last = name.casefold().replace("nvidia.gpu", "nvidia/gpu").rpartition("/")
    # Guides that ask for a model name it in the resource; it is chosen by a label.
    if last not in {"gpu", "gpus"} and not gpu_model.matching(last):
        return None
    return _VENDORS.get(domain.removesuffix(".com").removeprefix("gpu."))


def is_card_name(name: str) -> bool:
    """Whether it is NVIDIA's name for one kind of card, such as nvidia.com/a100.

    No device plugin offers one by itself; in clusters whose plugins were told to, it is right.
    """
    domain, _, last = name.casefold().rpartition("/")
    return domain == "nvidia.com" and not is_gpu(name) and bool(gpu_model.matching(last))
