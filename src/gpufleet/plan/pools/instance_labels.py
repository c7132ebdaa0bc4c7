"""The labels that Karpenter's providers give the nodes of a type, as far as a table of prices tells them.

NodePools and NodeOverlays name instances by these. A label that cannot be worked out here is left out, and a
requirement for it is then taken to hold.
"""

import re
from collections.abc import Mapping

from gpufleet.kube.meanings.node_labels import ARCH, INSTANCE_TYPE, OS, PRODUCTS, REGION, ZONE
from gpufleet.model import gpu_model
from gpufleet.model.spot import KARPENTER_CAPACITY_TYPE
from gpufleet.plan.instance_types import InstanceType

_AWS, _AZURE = "karpenter.k8s.aws/instance-", "karpenter.azure.com/sku-"
_OF_AWS = re.compile(
    r"(?P<family>(?P<category>[a-z]+)(?P<generation>[0-9]+)[a-z0-9-]*)\.(?P<size>[a-z0-9-]+)"
)
_OF_AZURE = re.compile(r"Standard_(?P<family>[A-Z])[A-Za-z]*[0-9]+.*_v(?P<version>[0-9]+)")
PROVIDERS = ("karpenter.k8s.aws/", "karpenter.azure.com/")
"""The domains of the labels of Karpenter's providers."""

MILLI = 1_000
"""Thousandths of a CPU: labels count whole ones."""


def labels_of_type(one: InstanceType) -> dict[str, str]:
    """The labels of such a node."""
    found = {
        OS: "linux",
        ARCH: "amd64",
        INSTANCE_TYPE: one.name,
        REGION: one.region,
        ZONE: one.zone,
        KARPENTER_CAPACITY_TYPE: one.capacity_type,
        **_of_provider(one),
    }
    model = gpu_model.find(one.gpu_model)
    if model is not None and model.labels:
        found[PRODUCTS[model.vendor]] = model.labels[0]
    return {key: value for key, value in found.items() if value}


def _of_provider(one: InstanceType) -> Mapping[str, str]:
    aws = _OF_AWS.fullmatch(one.name)
    if aws is not None:
        named = {part: str(aws[part]) for part in ("family", "category", "generation", "size")}
        return {f"{_AWS}{key}": value for key, value in {**named, **_amounts(one, "gpu-name")}.items()}
    azure = _OF_AZURE.fullmatch(one.name)
    if azure is not None:
        named = {"name": one.name, "family": str(azure["family"]), "version": str(azure["version"])}
        return {f"{_AZURE}{key}": value for key, value in {**named, **_amounts(one, "")}.items()}
    return {}


def _amounts(one: InstanceType, name_key: str) -> Mapping[str, str]:
    model = gpu_model.find(one.gpu_model)
    found = {
        "cpu": str(one.cpu_milli // MILLI),
        "memory": str(one.memory_mib),
        "gpu-count": str(one.gpus),
        "gpu-manufacturer": "" if model is None else model.vendor.value.lower(),
    }
    if name_key:
        # Karpenter names the family on AWS: h100, a10g.
        found[name_key] = one.gpu_model.partition("-")[0].lower()
    return found
