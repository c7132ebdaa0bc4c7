"""Which types of instances of clouds have GPUs, as far as their names tell."""

import re

AWS_CATEGORY = "karpenter.k8s.aws/instance-category"
AWS_FAMILY = "karpenter.k8s.aws/instance-family"
GPU_CATEGORIES = frozenset({"g", "gr", "p"})
"""AWS's letters for instances with GPUs."""

GPU_COUNTS = ("karpenter.k8s.aws/instance-gpu-count", "karpenter.azure.com/sku-gpu-count")
"""Labels that say how many GPUs an instance has."""

_GPU_FAMILY = re.compile(r"(p[2-9]|gr?[3-9])[a-z0-9-]*(\.|$)|Standard_N[CDV]")


def is_gpu_instance(name: str) -> bool:
    """Whether a type of instance of AWS or Azure, or a family of them, has GPUs."""
    return _GPU_FAMILY.match(name) is not None
