"""Labels of nodes: of the kubelet, and of clouds and feature discovery for GPUs and their driver."""

import re
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

KWOK_NODE = "kwok.x-k8s.io/node"
"""An annotation: KWOK plays the kubelet of such a node."""

HOST_NAME = "kubernetes.io/hostname"
OS, ARCH = "kubernetes.io/os", "kubernetes.io/arch"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
"""Written by kubelets before Kubernetes 1.17, and on volumes that were made then."""

GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
"""The product, as GKE writes it: nvidia-h100-80gb."""

COREWEAVE_CLASS = "gpu.nvidia.com/class"
"""The product, as CoreWeave writes it: A100_NVLINK_80GB."""

KARPENTER_GPU_NAME = "karpenter.k8s.aws/instance-gpu-name"
"""The family, as Karpenter writes it on AWS: a10g, h100; a100 may have 40 or 80 GB."""

AWS_ACCELERATOR = "k8s.amazonaws.com/accelerator"
"""The product, as administrators of node groups on AWS write it for Cluster Autoscaler: nvidia-tesla-t4."""

CARD_LABELS = (*PRODUCT_LABELS, GKE_ACCELERATOR, COREWEAVE_CLASS, KARPENTER_GPU_NAME, AWS_ACCELERATOR)
"""All labels that name a card: of feature discovery, and of clouds before a node is there."""

_GKE_NAMES = {
    "nvidia-tesla-v100": "V100-16GB",
    "nvidia-tesla-a100": "A100-40GB",
    "nvidia-h100-mega-80gb": "H100-80GB",
    "nvidia-h200-141gb": "H200",
}
"""GKE's own names that other writers use for several cards or not at all (its page on GPU machine types)."""

_COREWEAVE_FORM = re.compile(r"_(?:NVLINK|PCIE|SXM\d?)(?=_|$)")

GPU_PRESENT, GPU_COUNT = "nvidia.com/gpu.present", "nvidia.com/gpu.count"
MIG_STRATEGY = "nvidia.com/mig.strategy"
"""single: MIG instances are called nvidia.com/gpu; mixed: each profile has a name of its own."""

NVIDIA_MEMORY = "nvidia.com/gpu.memory"
MEMORY_LABELS = (NVIDIA_MEMORY,)
"""Memory of one card in MiB; other makers do not tell it in one number."""

FULL_DRIVER = "nvidia.com/cuda.driver-version.full"
DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver-version.{part}" for part in ("major", "minor", "revision"))
# Written by NVIDIA's discovery before 0.15, and beside the others since.
OLDER_DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
DRIVER_LABELS = (FULL_DRIVER, *DRIVER_PARTS, *OLDER_DRIVER_PARTS)


def card_name(label: str, value: str) -> str:
    """The name of the card that a label of ``CARD_LABELS`` means, as catalogues have it where they differ."""
    if label == GKE_ACCELERATOR:
        return _GKE_NAMES.get(value, value)
    return _COREWEAVE_FORM.sub("", value) if label == COREWEAVE_CLASS else value


def labelled_driver(labels: Mapping[str, str]) -> DriverVersion | None:
    """The version of a node's NVIDIA driver, as far as its labels tell."""
    full = labels.get(FULL_DRIVER)
    if full is not None:
        return parse_driver(full)
    return _joined(labels, DRIVER_PARTS) or _joined(labels, OLDER_DRIVER_PARTS)


def _joined(labels: Mapping[str, str], names: Iterable[str]) -> DriverVersion | None:
    parts = [labels[name] for name in names if labels.get(name)]
    return parse_driver(".".join(parts))
