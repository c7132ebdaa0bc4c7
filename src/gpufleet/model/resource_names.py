"""The names of resources, and which rules of the API server hold for each kind of name.

Names without a domain are the server's own; names with a domain are extended resources, such as
GPUs: whole numbers that cannot be promised twice. ``requests`` applies the rules.
"""

from gpufleet.model.label_syntax import is_label_key
from gpufleet.model.model_errors import InputError

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
HUGE_PAGES_PREFIX = "hugepages-"

# Each stands for whole devices, under the name that its vendor's device plugin gives it.
NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
INTEL_GPU_I915 = "gpu.intel.com/i915"
INTEL_GPU_XE = "gpu.intel.com/xe"
GPU_RESOURCES = (NVIDIA_GPU, AMD_GPU, INTEL_GPU_I915, INTEL_GPU_XE)
MIG_PREFIX = "nvidia.com/mig-"
NVIDIA_SHARED = "nvidia.com/gpu.shared"
"""Shares of GPUs in time, by the name that NVIDIA's device plugin gives them where sharing is not hidden."""

_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


def is_extended(name: str) -> bool:
    """True for resources of a domain other than Kubernetes' own."""
    native = "/" not in name or _NATIVE_DOMAIN in name
    # A quota must be able to name it too, with the prefix in front.
    return not (native or name.startswith(_QUOTA_PREFIX)) and is_label_key(_QUOTA_PREFIX + name)


def is_mig_instance(name: str) -> bool:
    """True for MIG instances of one profile, which a kubelet counts beside whole GPUs."""
    return name.startswith(MIG_PREFIX)


def is_part_of_gpu(name: str) -> bool:
    """True for what is a part of a GPU, and is counted by its name alone: a MIG instance, a share in time."""
    return is_mig_instance(name) or name == NVIDIA_SHARED


def mig_resource(profile: str) -> str:
    """The resource of a MIG profile: 1g.5gb+me is nvidia.com/mig-1g.5gb.me."""
    return f"{MIG_PREFIX}{profile.replace('+', '.')}"


def is_huge_pages(name: str) -> bool:
    """True for preallocated memory pages of one size."""
    return name.startswith(HUGE_PAGES_PREFIX)


def is_overcommittable(name: str) -> bool:
    """True if a limit may be larger than its request."""
    return not (is_extended(name) or is_huge_pages(name))


def is_pod_level(name: str) -> bool:
    """True if a pod may ask for the resource once for all its containers."""
    return name in (CPU, MEMORY) or is_huge_pages(name)


def check_container_resource(name: str, field: str) -> None:
    """Raises InputError unless a container may ask for a resource of this name."""
    standard = name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_huge_pages(name)
    with_domain = _NATIVE_DOMAIN in name or is_extended(name)
    if not (is_label_key(name) and (standard or with_domain)):
        expected = "cpu, memory, ephemeral-storage, hugepages-<size> or a name such as nvidia.com/gpu"
        raise InputError("not a container's resource", field=field, value=name, expected=expected)


def check_pod_level_resource(name: str, field: str) -> None:
    """Raises InputError unless a pod as a whole may ask for a resource of this name."""
    if not is_pod_level(name):
        expected = "cpu, memory or hugepages-<size>; all else is asked for by a container"
        raise InputError("not a resource of pods", field=field, value=name, expected=expected)
