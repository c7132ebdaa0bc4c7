"""The GPU stack of a cluster: which DaemonSets are its drivers, plugins, exporters, and where they run."""

import enum
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.objects.pods import PodView
from gpufleet.lint.objects.cluster import tolerations_on
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.device_plugins import is_for_other_devices, vendors_of
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.taint import Taint, untolerated


class StackPart(enum.Enum):
    """What a part of the stack is for."""

    DRIVER = "driver"
    TOOLKIT = "container toolkit"
    PLUGIN = "device plugin"
    EXPORTER = "exporter"
    FEATURES = "feature discovery"
    MIG_MANAGER = "MIG manager"


# What a DaemonSet is for, by the names of images that projects publish.
_IMAGES = {
    StackPart.DRIVER: re.compile(r"nvidia/driver|nvidia-driver|amdgpu-driver"),
    StackPart.TOOLKIT: re.compile(r"container-toolkit"),
    StackPart.PLUGIN: re.compile(
        r"device-plugin|intel-gpu-plugin|projecthami/hami|dra-driver|gpufleet(-agent)?$|vgpu-manager"
    ),
    StackPart.EXPORTER: re.compile(
        r"dcgm-exporter|device-metrics-exporter|xpumanager|xpu-manager|gpufleet(-agent)?$"
    ),
    StackPart.FEATURES: re.compile(
        r"gpu-feature-discovery|node-labeller|node-feature-discovery|gpufleet(-agent)?$"
    ),
    StackPart.MIG_MANAGER: re.compile(r"k8s-mig-manager|mig-manager"),
}


_PLUGIN_IMAGE_FOR = (
    (re.compile(r"gpu-feature-discovery"), frozenset({StackPart.FEATURES})),
    (re.compile(r"labell?er"), frozenset({StackPart.FEATURES})),
    (re.compile(r"mps-control-daemon|config-manager"), frozenset[StackPart]()),
)
"""Makers ship these in the image of their plugin; tag, name and command of the container tell them apart."""


def parts_of(template: PodTemplate) -> frozenset[StackPart]:
    """Which parts of the stack the containers of a pod are; judged by their images."""
    return frozenset[StackPart]().union(*map(_parts_of_container, template.containers))


def _parts_of_container(container: Container) -> frozenset[StackPart]:
    if container.image is None:
        return frozenset()
    repository = container.image.repository
    found = _parts_of_image(repository)
    if found and StackPart.PLUGIN in found:
        if is_for_other_devices(repository):
            return found - {StackPart.PLUGIN}
        told = " ".join((container.image.tag, container.name, *container.words))
        found = next((parts for word, parts in _PLUGIN_IMAGE_FOR if word.search(told)), found)
    return found


# Pods of a cluster repeat a few hundred images.
@lru_cache(maxsize=4096)
def _parts_of_image(repository: str) -> frozenset[StackPart]:
    return frozenset(part for part, image in _IMAGES.items() if image.search(repository))


_TOLERATED_BY_ALL_DAEMONS = frozenset(
    f"node.kubernetes.io/{name}"
    for name in (
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    )
)
"""The DaemonSet controller adds tolerations of these."""


# Which DaemonSets write the label that names the product.
_PRODUCT_WRITERS = (
    (re.compile(r"gpu-feature-discovery"), frozenset({Vendor.NVIDIA})),
    (re.compile(r"labell?er"), frozenset({Vendor.AMD})),
    (re.compile(r"(^|/)gpufleet(-agent)?\b"), frozenset({Vendor.NVIDIA, Vendor.AMD})),
)


def product_writers(template: PodTemplate) -> frozenset[Vendor]:
    """The makers of the products that such a pod labels; what finds PCI cards and no more labels none."""
    texts = (
        " ".join((one.image.repository, one.image.tag, one.name, *one.words))
        for one in template.containers
        if one.image is not None
    )
    return frozenset[Vendor]().union(
        *(vendors for text in texts for words, vendors in _PRODUCT_WRITERS if words.search(text))
    )


@dataclass(frozen=True)
class Daemon:
    """A DaemonSet of the stack, with its pods."""

    manifest: Manifest
    parts: frozenset[StackPart]
    pods: tuple[PodView, ...]

    @property
    def title(self) -> str:
        """How people name it."""
        return self.manifest.title

    @property
    def template(self) -> PodTemplate:
        """The template of the DaemonSet's pods."""
        return self.manifest.templates[0]

    @cached_property
    def vendors(self) -> frozenset[Vendor]:
        """The makers of the GPUs that it announces, if it is a plugin."""
        return vendors_of(self.template)

    def serves(self, node: NodeView) -> bool:
        """Whether it is for the maker of the node's GPUs, as far as the two are known."""
        return not self.vendors or not node.vendors or bool(self.vendors & node.vendors)

    def unmet(self, node: NodeView) -> str:
        """The first label that its pods select and that the node does not have; empty if it has all."""
        terms = self.template.node_terms
        unmet = [
            next((one.requirement for one in term if not one.requirement.accepts(node.labels)), None)
            for term in terms
        ]
        first = next(iter(unmet), None)
        return str(first) if first is not None and all(one is not None for one in unmet) else ""

    def repelled_by(self, node: NodeView) -> Taint | None:
        """The first taint of the node that its pods do not tolerate."""
        own = (one for one in node.taints if one.key not in _TOLERATED_BY_ALL_DAEMONS)
        return untolerated(own, tolerations_on(node.seen, self.template))

    @cached_property
    def pod_on(self) -> dict[str, PodView]:
        """The DaemonSet's pod on each node, by the node's name."""
        return {one.node: one for one in self.pods if one.node}


@dataclass(frozen=True)
class Stack:
    """The GPU stack of a cluster: its DaemonSets, and pods of it that belong to none."""

    daemons: tuple[Daemon, ...]
    lone_pods: tuple[tuple[frozenset[StackPart], PodView], ...] = ()

    def having(self, part: StackPart) -> tuple[Daemon, ...]:
        """The DaemonSets that are this part."""
        return tuple(one for one in self.daemons if part in one.parts)

    def pods_on(self, node: NodeView, part: StackPart) -> tuple[PodView, ...]:
        """The pods of this part on a node, those that no DaemonSet made among them."""
        found = [one.pod_on[node.name] for one in self.having(part) if node.name in one.pod_on]
        lone = [pod for parts, pod in self.lone_pods if part in parts and pod.node == node.name]
        return (*found, *lone)


def stack_of(facts: Facts) -> Stack:
    """The stack, as far as DaemonSets and pods show it."""
    return facts.once(_stack_of)


def _stack_of(facts: Facts) -> Stack:
    mine: dict[tuple[str, str], list[PodView]] = {}
    lone = []
    for pod in facts.pods:
        if parts := parts_of(pod.template):
            kind, _, name = pod.owner.partition(" ")
            if kind == "DaemonSet":
                mine.setdefault((pod.namespace, name), []).append(pod)
            else:
                lone.append((parts, pod))
    daemons = [
        Daemon(one, parts, tuple(mine.get((one.namespace, one.name), ())))
        for one in facts.of_kind("DaemonSet")
        if one.templates and (parts := parts_of(one.templates[0]))
    ]
    return Stack(tuple(daemons), tuple(lone))
