"""The programs that tell kubelets about GPUs: device plugins, DRA drivers, and operators that bring them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.model.gpu_catalogue import Vendor

VENDORS = frozenset({Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL})
RESOURCE_PREFIXES = {"nvidia.com/": Vendor.NVIDIA, "amd.com/": Vendor.AMD, "gpu.intel.com/": Vendor.INTEL}
_IMAGES = (
    # GKE's own is named like NVIDIA's; HAMi and Volcano share NVIDIA's cards out in its place.
    (
        re.compile(
            r"nvidia.*device-plugin|k8s-dra-driver(-gpu)?$|nvidia.*dra-driver|/hami$|volcano-vgpu-device-plugin"
        ),
        frozenset({Vendor.NVIDIA}),
    ),
    (
        re.compile(r"(rocm|amd).*device-plugin|k8s-gpu-dra-driver|amdgpu-dra-driver"),
        frozenset({Vendor.AMD}),
    ),
    (re.compile(r"intel-gpu-(plugin|resource-driver)"), frozenset({Vendor.INTEL})),
    (re.compile(r"(^|/)gpufleet($|[-/])"), VENDORS),
)
_OPERATORS = {
    ("nvidia.com", "ClusterPolicy"): (Vendor.NVIDIA, ("devicePlugin", "enabled")),
    ("amd.com", "DeviceConfig"): (Vendor.AMD, ("devicePlugin", "enableDevicePlugin")),
    ("deviceplugin.intel.com", "GpuDevicePlugin"): (Vendor.INTEL, ()),
}
ANNOUNCING_KINDS = ("DaemonSet", *(kind for _, kind in _OPERATORS))
"""Kinds of objects that bring a program that announces GPUs; a node that has GPUs to give tells of one, too.
"""

_OTHER_DEVICES = re.compile(
    r"rdma|sriov|efa|infiniband|neuron|tpu|gaudi|habana|fpga|qat|sgx|kvm|kubevirt|fuse|hugepage"
)
_PLUGIN_FOLDER = "/var/lib/kubelet/device-plugins"
_FEATURE_DISCOVERY = re.compile(r"node-feature-discovery")


@dataclass(frozen=True)
class Announcers:
    """The makers of announced GPUs, and DaemonSets of which it is not known what they announce."""

    vendors: frozenset[Vendor]
    unknown: tuple[str, ...] = ()
    has_feature_discovery: bool = False
    """NVIDIA's and AMD's operators bring it; while there is no GPU node, they bring no plugin yet."""

    def __or__(self, other: "Announcers") -> "Announcers":
        """What both tell."""
        return Announcers(
            self.vendors | other.vendors,
            self.unknown + other.unknown,
            self.has_feature_discovery or other.has_feature_discovery,
        )


def announcers(manifests: Iterable[Manifest]) -> Announcers:
    """What nodes and objects of the announcing kinds tell of it."""
    vendors: set[Vendor] = set()
    unknown: list[str] = []
    discovers = False
    for one in manifests:
        vendors.update(_of_operator(one), _of_node(one))
        for template in one.templates:
            found = vendors_of(template)
            vendors.update(found)
            if not found and _is_unknown_plugin(template):
                unknown.append(one.title)
            discovers = discovers or any(_FEATURE_DISCOVERY.search(name) for name in _repositories(template))
    return Announcers(frozenset(vendors), tuple(unknown), discovers)


def _of_operator(manifest: Manifest) -> Iterator[Vendor]:
    known = _OPERATORS.get((manifest.group, manifest.kind))
    if known is not None:
        vendor, switch = known
        if not switch or manifest.root.text_at("spec", *switch) != "false":
            yield vendor


def _of_node(manifest: Manifest) -> Iterator[Vendor]:
    if manifest.kind == "Node":
        for name, field in manifest.root.at("status", "allocatable").entries():
            count = amount(field.text)
            if is_gpu(name) and count is not None and count.nano > 0:
                yield from (vendor for prefix, vendor in RESOURCE_PREFIXES.items() if name.startswith(prefix))


def vendors_of(template: PodTemplate) -> frozenset[Vendor]:
    """The makers of the GPUs that such a pod announces, as far as its images tell."""
    return frozenset().union(
        *(vendors for name in _repositories(template) for words, vendors in _IMAGES if words.search(name))
    )


def _repositories(template: PodTemplate) -> Iterator[str]:
    return (one.image.repository for one in template.all_containers if one.image is not None)


def is_for_other_devices(repository: str) -> bool:
    """Whether a plugin of this image announces network cards or other things that are no GPUs."""
    return "gpu" not in repository and _OTHER_DEVICES.search(repository) is not None


def _is_unknown_plugin(template: PodTemplate) -> bool:
    mounts = any((one.host_path or "").startswith(_PLUGIN_FOLDER) for one in template.volumes)
    return mounts and not any(_OTHER_DEVICES.search(name) for name in _repositories(template))
