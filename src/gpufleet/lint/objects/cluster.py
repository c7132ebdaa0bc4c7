"""What is known of a cluster: its objects, read as manifests are, and views of those that rules ask about.

They are gathered by whole kinds, so that what is not among the objects of a kind is not there. Of a kind
without any object nothing is known, unless ``kinds`` says that it was listed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.device_plugins import ANNOUNCING_KINDS, Announcers, announcers
from gpufleet.lint.objects.manifest import Manifest, by_kind
from gpufleet.lint.objects.pods import Asked, PodTemplate
from gpufleet.model.labels import Requirement
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import Quantity
from gpufleet.model.taint import NO_SCHEDULE, Taint, Toleration
from gpufleet.model.worked_out_once import worked_out_once

# Labels that managed clusters put on every node of theirs.
_MANAGED = ("cloud.google.com/gke-", "eks.amazonaws.com/", "kubernetes.azure.com/")

_OWN_MACHINES = ("kind://", "k3s://", "rke2://", "k0s://", "kwok://", "metal3://")
"""How providers' names begin of machines of which none is added by itself."""


@dataclass(frozen=True)
class ClusterNode:
    """A node of the cluster."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """The node's name."""
        return self.manifest.name

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self.manifest.labels

    @property
    def kubelet_version(self) -> str:
        """What its kubelet says of itself; empty if nothing."""
        return self.manifest.root.text_at("status", "nodeInfo", "kubeletVersion") or ""

    @worked_out_once
    def gpus(self) -> dict[str, int]:
        """How much it has of each GPU resource, by name; those that it has none of are left out."""
        fields = self.manifest.root.at("status", "allocatable").entries()
        found = {name: amount(field.text) for name, field in fields if is_gpu(name)}
        return {name: one.value() for name, one in found.items() if one is not None and one.nano > 0}

    @worked_out_once
    def completes_tolerations(self) -> bool:
        """Whether it is of a managed service with a server that adds the toleration for a resource that is
        asked.

        GKE, EKS (since 1.19, github.com/aws/containers-roadmap/issues/739) and AKS run the admission plugin
        ExtendedResourceToleration.
        """
        return any(name.startswith(_MANAGED) for name in self.labels)

    @worked_out_once
    def is_of_a_cloud(self) -> bool:
        """Whether a cloud made it, which can make others; nodes of one's own machines name no cloud."""
        provider = self.manifest.root.text_at("spec", "providerID") or ""
        return self.completes_tolerations or (bool(provider) and not provider.startswith(_OWN_MACHINES))

    def allocatable(self, name: str) -> Quantity | None:
        """How much of this resource pods may have; None where the node does not say."""
        return amount(self.manifest.root.text_at("status", "allocatable", name))

    @worked_out_once
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints that keep pods away; a malformed one keeps no pod away."""
        found = []
        for one in self.manifest.root.at("spec", "taints").items():
            texts = [one.text_at(name) or "" for name in ("key", "value", "effect")]
            try:
                taint = Taint(*texts)
            except InputError:
                continue
            if taint.repels:
                found.append(taint)
        return tuple(found)


@dataclass(frozen=True)
class Cluster:
    """The objects of a cluster, and which kinds were listed."""

    manifests: tuple[Manifest, ...]
    kinds: frozenset[str] = frozenset()

    def knows(self, kind: str) -> bool:
        """Whether it is known which objects of this kind there are."""
        return kind in self.kinds or kind in self._by_kind

    def names(self, kind: str) -> frozenset[str]:
        """The names of all objects of this kind."""
        return frozenset(one.name for one in self.of_kind(kind))

    def of_kind(self, *kinds: str) -> Iterator[Manifest]:
        """The cluster's objects of these kinds."""
        return (one for kind in kinds for one in self._by_kind.get(kind, ()))

    @worked_out_once
    def _by_kind(self) -> dict[str, list[Manifest]]:
        return by_kind(self.manifests)

    @worked_out_once
    def announcers(self) -> Announcers:
        """The programs that tell its kubelets about GPUs."""
        return announcers(self.of_kind(*ANNOUNCING_KINDS, "Node"))

    @worked_out_once
    def _pods_by_node(self) -> dict[str, list[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for one in self.manifests:
            name = one.root.text_at("spec", "nodeName") if one.kind == "Pod" else None
            if name is not None:
                found.setdefault(name, []).append(one)
        return found

    def pods_on(self, node: ClusterNode) -> tuple[Manifest, ...]:
        """The pods that were placed on this node."""
        return tuple(self._pods_by_node.get(node.name, ()))

    @worked_out_once
    def nodes(self) -> tuple[ClusterNode, ...]:
        """The cluster's nodes."""
        return tuple(ClusterNode(one) for one in self.manifests if one.kind == "Node")

    @worked_out_once
    def values_by_label(self) -> dict[str, frozenset[str]]:
        """The values that nodes have of each label."""
        return {name: frozenset(values) for name, values in self._names_by_label.items()}

    @worked_out_once
    def may_grow(self) -> bool:
        """Whether nodes of other kinds may be added by an autoscaler, as far as the nodes tell."""
        return any(one.is_of_a_cloud for one in self.nodes)

    def values_of(self, label: str) -> frozenset[str]:
        """The values that nodes have of a label."""
        return self.values_by_label.get(label, frozenset())

    def nodes_for(self, template: PodTemplate) -> tuple[ClusterNode, ...]:
        """The nodes that have every GPU resource that the pod asks for, and as many devices of each."""
        return self._having(template.asked_gpus)

    def candidates(self, template: PodTemplate) -> tuple[ClusterNode, ...]:
        """The nodes with the GPU resources that the pod asks for, as far as its selection takes them."""
        key = (template.asked_gpus, template.selection)
        if key not in self._candidates:
            self._candidates[key] = self.selected(template, self._having(key[0]))
        return self._candidates[key]

    def sorts_of_candidates(self, template: PodTemplate, labels: tuple[str, ...]) -> tuple[ClusterNode, ...]:
        """One candidate for each combination of values that these labels have."""
        key = (template.asked_gpus, template.selection, labels)
        if key not in self._sorts:
            found: dict[tuple[str | None, ...], ClusterNode] = {}
            for node in self.candidates(template):
                found.setdefault(tuple(map(node.labels.get, labels)), node)
            self._sorts[key] = tuple(found.values())
        return self._sorts[key]

    def selected(self, template: PodTemplate, nodes: Iterable[ClusterNode]) -> tuple[ClusterNode, ...]:
        """Which of these nodes the pod's selection takes, whatever GPUs they have."""
        taken = self.taken(template)
        # A pod that selects nothing takes every node.
        if len(taken) == len(self._names):
            return tuple(nodes)
        return tuple(node for node in nodes if node.name in taken)

    def taken(self, template: PodTemplate) -> frozenset[str]:
        """The names of all nodes that the pod's selection takes, whatever they have."""
        terms = template.selection
        if terms not in self._taken:
            self._taken[terms] = frozenset[str]().union(*map(self.meeting, terms))
        return self._taken[terms]

    def meeting(self, requirements: Iterable[Requirement]) -> frozenset[str]:
        """The names of the nodes that meet all of these requirements."""
        found = self._names
        for one in requirements:
            found &= self._meeting_one(one)
        return found

    def _meeting_one(self, requirement: Requirement) -> frozenset[str]:
        """Each value that nodes have of the label is compared once, however many nodes have it."""
        if requirement not in self._met:
            by_value = self._names_by_label.get(requirement.key, {})
            met = (names for value, names in by_value.items() if requirement.accepts_value(value))
            found = frozenset[str]().union(*met)
            if requirement.accepts_value(None):
                found |= self._names.difference(*by_value.values())
            self._met[requirement] = found
        return self._met[requirement]

    @worked_out_once
    def _names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.nodes)

    @worked_out_once
    def _names_by_label(self) -> dict[str, dict[str, set[str]]]:
        found: dict[str, dict[str, set[str]]] = {}
        for node in self.nodes:
            for name, value in node.labels.items():
                found.setdefault(name, {}).setdefault(value, set()).add(node.name)
        return found

    @worked_out_once
    def _met(self) -> dict[Requirement, frozenset[str]]:
        return {}

    # Of thousands of pods a few differ in what they select and ask for.

    @worked_out_once
    def _taken(self) -> "dict[_Selection, frozenset[str]]":
        return {}

    @worked_out_once
    def _candidates(self) -> "dict[tuple[Asked, _Selection], tuple[ClusterNode, ...]]":
        return {}

    @worked_out_once
    def _sorts(self) -> "dict[tuple[Asked, _Selection, tuple[str, ...]], tuple[ClusterNode, ...]]":
        return {}

    @worked_out_once
    def _by_asked(self) -> "dict[Asked, tuple[ClusterNode, ...]]":
        return {}

    def _having(self, asked: "Asked") -> tuple[ClusterNode, ...]:
        if asked not in self._by_asked:
            # Of thousands of nodes a few differ in their GPUs.
            sorts = {gpus for gpus in {one for one, _ in self._nodes_by_gpus} if _suffice(dict(gpus), asked)}
            self._by_asked[asked] = tuple(node for gpus, node in self._nodes_by_gpus if gpus in sorts)
        return self._by_asked[asked]

    @worked_out_once
    def _nodes_by_gpus(self) -> "tuple[tuple[frozenset[tuple[str, int]], ClusterNode], ...]":
        return tuple((frozenset(one.gpus.items()), one) for one in self.nodes)


def _suffice(gpus: dict[str, int], asked: Asked) -> bool:
    return bool(gpus) and all(gpus.get(name, 0) >= count for name, count in asked)


_Selection = tuple[tuple[Requirement, ...], ...]


def tolerations(template: PodTemplate) -> tuple[Toleration, ...]:
    """What the pod tolerates as it is written."""
    found = []
    for one in template.tolerations:
        texts = [one.text_at(name) or "" for name in ("key", "operator", "value", "effect")]
        try:
            found.append(Toleration(*texts))
        except InputError:
            continue
    return tuple(found)


def tolerations_on(node: ClusterNode, template: PodTemplate) -> tuple[Toleration, ...]:
    """What the pod tolerates of this node, with what the server adds for the resources that it asks for."""
    if not node.completes_tolerations:
        return tolerations(template)
    names = sorted({name for one in template.all_containers for name in one.gpu_names})
    added = (Toleration(name, "Exists", "", NO_SCHEDULE) for name in names)
    return (*tolerations(template), *added)
