"""What a rule may know besides the object at hand: the other objects of the run, a cluster, metrics."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.measured_use import MeasuredUse
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.queue_quotas import QUEUE_KINDS, Queues

NATIVE_GROUP = "spec.schedulingGroup.podGroupName"
"""The mark by which pods name a PodGroup of Kubernetes, which is neither a label nor an annotation."""


@dataclass(frozen=True)
class Context:
    """Everything that is linted together, and what is known of its cluster and of its use there."""

    manifests: tuple[Manifest, ...] = ()
    cluster: Cluster | None = None
    use: MeasuredUse | None = None

    @cached_property
    def _by_kind(self) -> dict[str, list[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for one in self.manifests:
            found.setdefault(one.kind, []).append(one)
        return found

    def of_kind(self, *kinds: str, beside: Manifest | None = None) -> Iterator[Manifest]:
        """The objects of these kinds; ``beside`` keeps those of the same namespace."""
        for kind in kinds:
            for one in self._by_kind.get(kind, ()):
                if beside is None or one.namespace == beside.namespace:
                    yield one

    @cached_property
    def _by_mark(self) -> dict[tuple[str, str], list[tuple[Manifest, PodTemplate]]]:
        found: dict[tuple[str, str], list[tuple[Manifest, PodTemplate]]] = {}
        for one in self.manifests:
            for template in one.templates:
                marks = {
                    (name, field.text or "")
                    for place in (template.metadata, one.root.at("metadata"))
                    for part in ("labels", "annotations")
                    for name, field in place.at(part).entries()
                }
                native = template.spec.at("schedulingGroup", "podGroupName").text
                marks |= {(NATIVE_GROUP, native)} if native is not None else set()
                for mark in marks:
                    found.setdefault(mark, []).append((one, template))
        return found

    @cached_property
    def queues(self) -> Queues:
        """The queues of the run and of the cluster."""
        cluster = self.cluster
        known = () if cluster is None else tuple(cluster.of_kind(*QUEUE_KINDS))
        listed = frozenset(kind for kind in QUEUE_KINDS if cluster is not None and cluster.knows(kind))
        return Queues((*self.of_kind(*QUEUE_KINDS), *known), listed)

    def marked(self, name: str, value: str) -> tuple[tuple[Manifest, PodTemplate], ...]:
        """The pod templates with this label, annotation or group, themselves or by their object."""
        return tuple(self._by_mark.get((name, value), ()))
