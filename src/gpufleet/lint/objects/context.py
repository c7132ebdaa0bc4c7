"""What a rule may know besides the object at hand: the other objects of the run, a cluster, metrics."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gpufleet.kube.meanings.group_names import GroupName, named_groups
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.manifest import Manifest, by_kind
from gpufleet.lint.objects.measured_use import MeasuredUse
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.queue_quotas import QUEUE_KINDS, Queues


@dataclass(frozen=True)
class Context:
    """Everything that is linted together, and what is known of its cluster and of its use there."""

    manifests: tuple[Manifest, ...] = ()
    cluster: Cluster | None = None
    use: MeasuredUse | None = None

    @cached_property
    def _by_kind(self) -> dict[str, list[Manifest]]:
        return by_kind(self.manifests)

    def of_kind(self, *kinds: str, beside: Manifest | None = None) -> Iterator[Manifest]:
        """The objects of these kinds; ``beside`` keeps those of the same namespace."""
        for kind in kinds:
            for one in self._by_kind.get(kind, ()):
                if beside is None or one.namespace == beside.namespace:
                    yield one

    @cached_property
    def _by_group(self) -> dict[tuple[GroupName, str], list[tuple[Manifest, PodTemplate]]]:
        found: dict[tuple[GroupName, str], list[tuple[Manifest, PodTemplate]]] = {}
        for one in self.manifests:
            metadata = one.root.at("metadata")
            for template in one.templates:
                native = template.spec.text_at("schedulingGroup", "podGroupName")
                labels, annotations = metadata.texts_at("labels"), metadata.texts_at("annotations")
                said = dict(named_groups(labels, annotations, None))
                # What the pods say themselves counts before what their object says.
                said.update(named_groups(template.labels, template.annotations, native))
                for group in said.items():
                    found.setdefault(group, []).append((one, template))
        return found

    @cached_property
    def queues(self) -> Queues:
        """The queues of the run and of the cluster."""
        cluster = self.cluster
        known = () if cluster is None else tuple(cluster.of_kind(*QUEUE_KINDS))
        listed = frozenset(kind for kind in QUEUE_KINDS if cluster is not None and cluster.knows(kind))
        return Queues((*self.of_kind(*QUEUE_KINDS), *known), listed)

    def named_group(self, way: GroupName, name: str) -> tuple[tuple[Manifest, PodTemplate], ...]:
        """The pod templates that name this group in this way, themselves or by their object."""
        return tuple(self._by_group.get((way, name), ()))
