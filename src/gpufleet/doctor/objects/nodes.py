"""A node as checks read it: which GPUs it ought to have, and which it offers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.doctor.objects.status import ReadCondition, conditions
from gpufleet.kube.meanings.gpu_resources import is_gpu, is_whole_gpu
from gpufleet.kube.meanings.node_labels import KWOK_NODE
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.resource_names import is_mig_instance
from gpufleet.model.taint import Taint
from gpufleet.model.worked_out_once import worked_out_once

_PROMISES = re.compile(
    r"nvidia\.com/gpu\.(present|product|count)|amd\.com/gpu\..+|gpu\.intel\.com/.+"
    r"|cloud\.google\.com/gke-accelerator|k8s\.amazonaws\.com/accelerator|kubernetes\.azure\.com/accelerator"
    r"|feature\.node\.kubernetes\.io/(pci-(03\d\d_)?10de\.present|pci-(0302|0380|1200)_1002\.present|amd-gpu)"
)
"""Labels that say that a node has GPUs: of feature discovery, of clouds, and of the PCI bus.

A VGA controller of AMD (class 0300) is as a rule the graphics of the processor, on which no pod computes.
"""

_MAKERS = (
    (re.compile(r"nvidia\.com/|feature\.node\.kubernetes\.io/pci-(03\d\d_)?10de"), Vendor.NVIDIA),
    (re.compile(r"amd\.com/|feature\.node\.kubernetes\.io/pci-(03\d\d_)?1002"), Vendor.AMD),
    (re.compile(r"gpu\.intel\.com/"), Vendor.INTEL),
)
"""How names of labels and resources begin that speak of one maker's GPUs."""


@dataclass(frozen=True)
class NodeView:
    """A node. ``devices`` is its NodeDevices, if its agent reports."""

    manifest: Manifest
    devices: Manifest | None = None

    @property
    def title(self) -> str:
        """How people name it."""
        return self.manifest.title

    @property
    def name(self) -> str:
        """The node's name."""
        return self.manifest.name

    @worked_out_once
    def seen(self) -> ClusterNode:
        """The node in the form that rules of ``lint`` read."""
        return ClusterNode(self.manifest)

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self.seen.labels

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints that keep pods away."""
        return self.seen.taints

    @worked_out_once
    def conditions(self) -> dict[str, ReadCondition]:
        """The node's conditions by type."""
        return conditions(self.manifest.root.at("status"))

    @worked_out_once
    def is_ready(self) -> bool:
        """Whether its kubelet says that it is well."""
        ready = self.conditions.get("Ready")
        return ready is not None and ready.is_true

    @worked_out_once
    def is_cordoned(self) -> bool:
        """Whether the node is closed to new pods."""
        return self.manifest.root.at("spec", "unschedulable").is_true

    @property
    def is_simulated(self) -> bool:
        """Whether it is played by a local cluster, without a machine behind it."""
        return self.manifest.annotation(KWOK_NODE) is not None

    @worked_out_once
    def capacity(self) -> dict[str, int]:
        """GPU resources that the kubelet knows of, by name; also those with none."""
        return _gpus(self.manifest.root.at("status", "capacity"))

    @worked_out_once
    def allocatable(self) -> dict[str, int]:
        """GPU resources that pods may have, by name; also those with none."""
        return _gpus(self.manifest.root.at("status", "allocatable"))

    @worked_out_once
    def whole_gpus(self) -> int:
        """How many whole GPUs (or what looks like them) pods may have."""
        return sum(count for name, count in self.allocatable.items() if is_whole_gpu(name))

    @worked_out_once
    def offers(self) -> bool:
        """Whether pods can get any GPU, or a part of one, here."""
        return any(self.allocatable.values())

    @worked_out_once
    def mig_names(self) -> frozenset[str]:
        """The MIG resources that it offers."""
        return frozenset(name for name, count in self.allocatable.items() if is_mig_instance(name) and count)

    @worked_out_once
    def vendors(self) -> frozenset[Vendor]:
        """The makers of its GPUs, as its resources and labels name them."""
        names = (*self.capacity, *self.labels)
        return frozenset(vendor for name in names for word, vendor in _MAKERS if word.match(name))

    @worked_out_once
    def promise(self) -> str:
        """The label, or else the report, that says that the node has GPUs; empty if nothing does."""
        for name, value in sorted(self.labels.items()):
            if _PROMISES.fullmatch(name) and value not in {"false", "0"}:
                return f"label {name}={value}"
        return "its NodeDevices" if self.device_fields else ""

    @property
    def promises_gpus(self) -> bool:
        """Whether it has GPUs, or says that it ought to."""
        return bool(self.promise or any(self.capacity.values()) or self.offers)

    @worked_out_once
    def device_fields(self) -> tuple[Field, ...]:
        """The devices that its agent reports."""
        return tuple(self.devices.root.at("spec", "devices").items()) if self.devices is not None else ()


def _gpus(field: Field) -> dict[str, int]:
    found = {name: amount(value.text) for name, value in field.entries() if is_gpu(name)}
    return {name: one.value() for name, one in found.items() if one is not None}


def node_views(nodes: Iterable[Manifest], reports: Iterable[Manifest]) -> tuple[NodeView, ...]:
    """Each node with the report of its agent."""
    by_name = {one.name: one for one in reports}
    return tuple(NodeView(one, by_name.get(one.name)) for one in nodes)
