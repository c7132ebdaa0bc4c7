"""What is known of a cluster at one moment: what ``live.gathering`` found, and when."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from gpufleet.doctor.objects.nodes import NodeView, node_views
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.objects.workloads import OwnerChains, Workload
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest

Value = TypeVar("Value")


@dataclass(frozen=True)
class Facts:
    """The cluster. ``refused`` says for a kind why it could not be listed."""

    objects: tuple[Manifest, ...]
    now: dt.datetime
    version: str = ""
    listed: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, frozenset[str] | None] = field(default_factory=dict)

    def once(self, view: "Callable[[Facts], Value]") -> Value:
        """What a view makes of the facts; worked out for the first check that asks."""
        if view not in self._views:
            self._views[view] = view(self)
        found: Value = self._views[view]
        return found

    @cached_property
    def _views(self) -> "dict[Callable[[Facts], Any], Any]":
        return {}

    @cached_property
    def _by_kind(self) -> dict[str, list[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for one in self.objects:
            found.setdefault(one.kind, []).append(one)
        return found

    def of_kind(self, *kinds: str, group: str | None = None) -> tuple[Manifest, ...]:
        """All objects of these kinds; of one group where that is said."""
        return tuple(
            one
            for kind in kinds
            for one in self._by_kind.get(kind, ())
            if group is None or one.group == group
        )

    def lacking(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Which of these kinds could not be listed."""
        return tuple(kind for kind in kinds if kind in self.refused)

    def find(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """The object of this name, if it is there; of several groups' kinds the one that was listed first."""
        return self._by_name.get((kind, namespace, name))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str, str], Manifest]:
        return {(one.kind, one.namespace, one.name): one for one in reversed(self.objects)}

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster in the form that rules of ``lint`` read."""
        return Cluster(self.objects, self.listed)

    @cached_property
    def context(self) -> Context:
        """Everything that people wrote, as one run of ``lint``: what workloads made would count twice."""
        titles = self._workload_titles
        written = (one for one in self.objects if titles.get(one.title, one.title) == one.title)
        return Context(tuple(written), self.cluster)

    @cached_property
    def nodes(self) -> tuple[NodeView, ...]:
        """Every node of the cluster, as checks read it."""
        return node_views(self.of_kind("Node"), self.of_kind("NodeDevices"))

    @cached_property
    def gpu_nodes(self) -> tuple[NodeView, ...]:
        """Nodes that have GPUs, or say in any way that they ought to."""
        return tuple(one for one in self.nodes if one.promises_gpus)

    @cached_property
    def gpu_node_names(self) -> frozenset[str]:
        """The names of the GPU nodes."""
        return frozenset(one.name for one in self.gpu_nodes)

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        """Every pod that says what is in it, as all do that a server keeps."""
        return tuple(PodView(one) for one in self.of_kind("Pod", group="") if one.templates)

    @cached_property
    def pods_by_node(self) -> dict[str, list[PodView]]:
        """The pods that were given a node and have not ended."""
        found: dict[str, list[PodView]] = {}
        for one in self.pods:
            if one.node and not one.has_ended:
                found.setdefault(one.node, []).append(one)
        return found

    @cached_property
    def pods_by_namespace(self) -> dict[str, list[PodView]]:
        """Every pod by its namespace."""
        found: dict[str, list[PodView]] = {}
        for one in self.pods:
            found.setdefault(one.namespace, []).append(one)
        return found

    @cached_property
    def waiting(self) -> tuple[PodView, ...]:
        """GPU pods that were given no node yet."""
        return tuple(one for one in self.pods if one.waits and one.asks_for_gpu)

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """What people run, the parts of the GPU stack left out."""
        return tuple(one for one in self.all_workloads if not one.is_infrastructure)

    @cached_property
    def all_workloads(self) -> tuple[Workload, ...]:
        """All objects that make pods and have no owner that was listed."""
        return self._owner_chains.workloads(self.pods)

    @cached_property
    def gpu_workloads(self) -> tuple[Workload, ...]:
        """The workloads with pods that ask for GPUs."""
        return tuple(one for one in self.workloads if one.asks_for_gpu)

    @cached_property
    def _title_above(self) -> dict[str, str]:
        return {pod.title: work.title for work in self.all_workloads for pod in work.pods}

    def works_above(self, titles: Iterable[str]) -> frozenset[str]:
        """The titles of the workloads that these pods, given by title, belong to."""
        return frozenset(self._title_above[one] for one in titles if one in self._title_above)

    @cached_property
    def waiting_by_selection(self) -> dict[frozenset[str], frozenset[str]]:
        """Waiting GPU pods by the set of nodes that they select: titles of pods, and of what made them."""
        waiting = {one.title for one in self.waiting}
        found: dict[frozenset[str], set[str]] = {}
        for workload in self.gpu_workloads:
            for pod in (one for one in workload.pods if one.title in waiting):
                found.setdefault(self.cluster.taken(pod.template), set()).update({workload.title, pod.title})
        return {taken: frozenset(titles) for taken, titles in found.items()}

    @cached_property
    def _owner_chains(self) -> OwnerChains:
        return OwnerChains(self.objects)

    @cached_property
    def _workload_titles(self) -> dict[str, str]:
        return self._owner_chains.titles()

    @cached_property
    def _gpu_workloads_by_title(self) -> dict[str, Workload]:
        return {one.title: one for one in self.gpu_workloads}

    def gpu_workload_above(self, manifest: Manifest) -> Workload | None:
        """The GPU workload that an object which makes pods, or is one, is a part of."""
        return self._gpu_workloads_by_title.get(self._workload_titles.get(manifest.title, ""))

    def infrastructure_above(self, manifest: Manifest) -> Workload | None:
        """The part of the GPU stack that an object which makes pods, or is one, belongs to."""
        title = self._workload_titles.get(manifest.title, "")
        return next((one for one in self.all_workloads if one.is_infrastructure and one.title == title), None)

    @cached_property
    def served_groups(self) -> frozenset[str]:
        """The API groups that are registered, those of definitions of custom kinds among them."""
        return frozenset(one.root.at("spec", "group").text or "" for one in self.of_kind("APIService"))
