"""Karpenter's NodePools and nodes: whether they have GPUs, and of which makers, as far as they say so."""

import re
from collections.abc import Iterable, Iterator

from gpufleet.kube.meanings.gpu_instances import AWS_CATEGORY, AWS_FAMILY, GPU_CATEGORIES, is_gpu_instance
from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.kube.meanings.node_labels import AWS_ACCELERATOR, GKE_ACCELERATOR, GPU_PRESENT, INSTANCE_TYPE
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field
from gpufleet.model.gpu_catalogue import Vendor

_ABOUT_GPUS = re.compile(r"gpu|accelerator", re.IGNORECASE)
# Keys of requirements that name types of instances.
_FAMILY = (AWS_FAMILY, INSTANCE_TYPE)
NODE_CLASS = "EC2NodeClass"
_MAKER = "karpenter.k8s.aws/instance-gpu-manufacturer"
_MAKERS = (
    (re.compile(r"nvidia", re.IGNORECASE), Vendor.NVIDIA),
    # g4ad are AWS's instances with AMD's cards; Azure writes them into the name.
    (re.compile(r"(^|[^a-z])amd([^6a-z]|$)|^g4ad|MI300X", re.IGNORECASE), Vendor.AMD),
    (re.compile(r"^gpu\.intel\.com/|^intel$", re.IGNORECASE), Vendor.INTEL),
)
# Labels whose value names the maker or the model.
_ACCELERATORS = (
    GKE_ACCELERATOR,
    AWS_ACCELERATOR,
    "kubernetes.azure.com/accelerator",
    _MAKER,
)
# PCI's number of the maker, behind the class of display and 3D controllers.
_PCI = re.compile(r"feature\.node\.kubernetes\.io/pci-03[0-9a-f]{2}_(10de|1002)\.present")
_PCI_MAKERS = {"10de": Vendor.NVIDIA, "1002": Vendor.AMD}


def is_pool(manifest: Manifest) -> bool:
    """Whether the object is one."""
    return (manifest.group, manifest.kind) == ("karpenter.sh", "NodePool")


def brings_gpus(pool: Manifest) -> bool | None:
    """Whether its nodes have GPUs; None where it does not say."""
    spec = pool.root.at("spec", "template", "spec")
    labels = pool.root.at("spec", "template", "metadata", "labels").entries()
    told = [_tells(one) for one in spec.at("requirements").items()]
    taints = [one.text_at("key") or "" for one in spec.at("taints").items()]
    limits = [name for name, one in pool.root.at("spec", "limits").entries() if one.text != "0"]
    named = any(map(_ABOUT_GPUS.search, [*taints, *(name for name, _ in labels)]))
    if True in told or (False not in told and (named or any(map(is_gpu, limits)))):
        return True
    return False if False in told else None


def _tells(requirement: Field) -> bool | None:
    key = requirement.text_at("key") or ""
    operator = requirement.text_at("operator")
    values = [one.text or "" for one in requirement.at("values").items()]
    if _ABOUT_GPUS.search(key):
        # Any other operator also takes nodes without the label, which have no GPU.
        return operator in {"Exists", "Gt"} or (operator == "In" and values != ["0"])
    if operator != "In":
        return None
    if key == AWS_CATEGORY:
        return not GPU_CATEGORIES.isdisjoint(values)
    if key in _FAMILY:
        return any(map(is_gpu_instance, values))
    return None


def gpu_makers(pool: Manifest) -> frozenset[Vendor]:
    """The makers of its nodes' GPUs; empty where it does not say."""
    spec = pool.root.at("spec", "template", "spec")
    words = [name for name, _ in pool.root.at("spec", "limits").entries()]
    words += [one.text_at("key") or "" for one in spec.at("taints").items()]
    for one in spec.at("requirements").items():
        if one.text_at("operator") == "In" and one.text_at("key") in {_MAKER, *_FAMILY}:
            words += [value.text or "" for value in one.at("values").items()]
    return frozenset(_makers_named(words))


def node_gpu_makers(node: Manifest) -> frozenset[Vendor] | None:
    """The makers of the GPUs that a node's labels tell of, as far as they name them; None for no GPU."""
    found: set[Vendor] = set()
    tells = False
    for name, field in node.root.at("metadata", "labels").entries():
        pci = _PCI.fullmatch(name)
        if field.text == "true" and pci is not None:
            found.add(_PCI_MAKERS[pci[1]])
        elif field.text == "true" and name == GPU_PRESENT:
            found.add(Vendor.NVIDIA)
        elif name in _ACCELERATORS:
            tells = True
            found.update(_makers_named([field.text or ""]))
    return frozenset(found) if found or tells else None


def brings_own_plugin(pool: Manifest, known: Iterable[Manifest]) -> bool | None:
    """Whether its nodes announce their GPUs by themselves; None where its node class is not known.

    EKS Auto Mode and Bottlerocket do (https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-k8s-device-plugin.html).
    """
    reference = pool.root.at("spec", "template", "spec", "nodeClassRef")
    if reference.text_at("group") == "eks.amazonaws.com":
        return True
    wanted = (NODE_CLASS, reference.text_at("name"))
    found = next((one for one in known if (one.kind, one.name) == wanted), None)
    if found is None or reference.text_at("kind") not in {None, NODE_CLASS}:
        return None
    spec = found.root.at("spec")
    images = [one.text_at("alias") or "" for one in spec.at("amiSelectorTerms").items()]
    return any(one.lower().startswith("bottlerocket") for one in (spec.text_at("amiFamily") or "", *images))


def _makers_named(words: Iterable[str]) -> Iterator[Vendor]:
    return (vendor for word in words for pattern, vendor in _MAKERS if pattern.search(word))
