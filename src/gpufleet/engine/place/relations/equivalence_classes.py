"""Pods that no selector can tell apart, and counts of them by node.

Pods of one namespace with the same labels look the same to every selector: they are one equivalence class.
Example: 5,000 pods of one Deployment are one class. A selector is compared with each class once, not with
each pod, and then kept as a count by node (``Selection``): a placement costs as many additions as there are
selections of its class.

A place that is only kept for a pod counts as one, and is counted once more among those kept: it may keep
others off, but a pod that is not there yet lets no other in.
"""

from dataclasses import dataclass, field

from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod_affinity import NamespaceScope

Criterion = tuple[NamespaceScope, LabelSelector | None]
Labels = tuple[tuple[str, str], ...]
CountByNode = dict[int, int]

IDLE_CLASSES_MAX = 4096
"""Classes without a placed pod that are remembered, because the next pod often has one of them."""


# Compared by identity: it is a key of dictionaries while its counts change.
@dataclass(slots=True, eq=False)
class Selection:
    """Pods that meet every criterion, counted by node while they have a place.

    Where ``staying`` is set, pods that were told to end are not among them. ``kept_by_node`` counts those
    of them that are not there yet.
    ``barriers`` counts, by topology key and node, the placed pods whose required anti-affinity keeps
    the selected pods out of their domain. ``waiting_shapes`` counts the waiting shapes (by row) to which one
    more pod of this selection may open a place.
    """

    criteria: tuple[Criterion, ...]
    staying: bool = False
    users: int = 0
    pods_by_node: CountByNode = field(default_factory=dict)
    kept_by_node: CountByNode = field(default_factory=dict)
    barriers: dict[str, CountByNode] = field(default_factory=dict)
    waiting_shapes: dict[int, int] = field(default_factory=dict)

    def selects(self, namespace: str, namespace_labels: dict[str, str], labels: dict[str, str]) -> bool:
        """True if a pod with these labels in this namespace meets every criterion."""
        return all(
            # As in Kubernetes: no selector selects nothing, an empty one everything.
            selector is not None and scope.accepts(namespace, namespace_labels) and selector.accepts(labels)
            for scope, selector in self.criteria
        )

    def there_by_node(self) -> CountByNode:
        """The selected pods by node, without those for which a place is only kept."""
        there = dict(self.pods_by_node)
        for node, pods in self.kept_by_node.items():
            add(there, node, -pods)
        return there

    def namespaces(self) -> tuple[str, ...] | None:
        """The only namespaces in which it can select anything, None if it selects them by label."""
        # All criteria must be met, so the namespaces of the first bound those of all.
        scope = self.criteria[0][0]
        return scope.names if scope.selector is None else None


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """Pods that no selector can tell apart, with the selections that select them."""

    namespace: str
    labels: Labels
    leaving: bool = False
    selections: dict[Selection, None] = field(default_factory=dict)
    pods_by_node: CountByNode = field(default_factory=dict)
    kept_by_node: CountByNode = field(default_factory=dict)

    @property
    def is_barred_somewhere(self) -> bool:
        """True if the anti-affinity of some placed pod selects it."""
        return any(selection.barriers for selection in self.selections)


class EquivalenceClasses:
    """Every equivalence class and every selection in use, matched with each other."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, str]] = {}
        self.barrier_count = 0
        self._selections: dict[tuple[tuple[Criterion, ...], bool], Selection] = {}
        self._by_namespace: dict[str, dict[Selection, None]] = {}
        self._by_labels_of_namespace: dict[Selection, None] = {}
        self._classes: dict[str, dict[tuple[Labels, bool], EquivalenceClass]] = {}
        self._idle: dict[EquivalenceClass, None] = {}

    def hold(self, criteria: tuple[Criterion, ...], *, staying: bool = False) -> Selection:
        """The selection of these criteria, for one more user."""
        selection = self._selections.get((criteria, staying))
        if selection is None:
            selection = self._selections[criteria, staying] = Selection(criteria, staying)
            self._index(selection)
            for pod_class in self._classes_in(selection.namespaces()):
                self._match(pod_class, selection)
        selection.users += 1
        return selection

    def drop(self, selection: Selection) -> None:
        """A selection has one user less; one without users is forgotten."""
        selection.users -= 1
        if selection.users:
            return
        del self._selections[selection.criteria, selection.staying]
        names = selection.namespaces()
        if names is None:
            del self._by_labels_of_namespace[selection]
        for name in dict.fromkeys(names or ()):
            del self._by_namespace[name][selection]
            if not self._by_namespace[name]:
                del self._by_namespace[name]
        for pod_class in self._classes_in(names):
            pod_class.selections.pop(selection, None)

    def _index(self, selection: Selection) -> None:
        names = selection.namespaces()
        if names is None:
            self._by_labels_of_namespace[selection] = None
        for name in names or ():
            self._by_namespace.setdefault(name, {})[selection] = None

    def _classes_in(self, names: tuple[str, ...] | None) -> list[EquivalenceClass]:
        """The pod_classes of some namespaces, None for all of them."""
        chosen = self._classes if names is None else dict.fromkeys(names)
        return [pod_class for name in chosen for pod_class in self._classes.get(name, {}).values()]

    def _match(self, pod_class: EquivalenceClass, selection: Selection) -> None:
        """Count the pods of the class in the selection, or no longer, as their labels are now."""
        labels = self.namespaces.get(pod_class.namespace, {})
        counts = not (selection.staying and pod_class.leaving)
        selected = counts and selection.selects(pod_class.namespace, labels, dict(pod_class.labels))
        if selected == (selection in pod_class.selections):
            return
        if selected:
            pod_class.selections[selection] = None
        else:
            del pod_class.selections[selection]
        for node, pods in pod_class.pods_by_node.items():
            add(selection.pods_by_node, node, pods if selected else -pods)
        for node, pods in pod_class.kept_by_node.items():
            add(selection.kept_by_node, node, pods if selected else -pods)

    def pod_class(self, namespace: str, labels: Labels, *, leaving: bool = False) -> EquivalenceClass:
        """The class of a pod with these labels."""
        group = self._classes.setdefault(namespace, {})
        pod_class = group.get((labels, leaving))
        if pod_class is None:
            pod_class = group[labels, leaving] = EquivalenceClass(namespace, labels, leaving)
            named = self._by_namespace.get(namespace, {})
            for selection in (*named, *self._by_labels_of_namespace):
                self._match(pod_class, selection)
            self._rest(pod_class)
        return pod_class

    def _rest(self, pod_class: EquivalenceClass) -> None:
        """A class without a placed pod is remembered for a while."""
        self._idle[pod_class] = None
        if len(self._idle) > IDLE_CLASSES_MAX:
            # A dictionary keeps the order in which its keys came.
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            del self._classes[oldest.namespace][oldest.labels, oldest.leaving]
            if not self._classes[oldest.namespace]:
                del self._classes[oldest.namespace]

    def count(self, pod_class: EquivalenceClass, node: int, pods: int, *, kept: bool = False) -> None:
        """So many more (or fewer) pods of the class have their place on the node, ``kept`` or taken."""
        add(pod_class.pods_by_node, node, pods)
        for selection in pod_class.selections:
            add(selection.pods_by_node, node, pods)
        if kept:
            add(pod_class.kept_by_node, node, pods)
            for selection in pod_class.selections:
                add(selection.kept_by_node, node, pods)
        if pod_class.pods_by_node:
            self._idle.pop(pod_class, None)
        else:
            self._rest(pod_class)

    def raise_barrier(self, selection: Selection, topology_key: str, node: int, pods: int) -> None:
        """So many more (or fewer) pods on the node keep the selected pods out of its domain."""
        holders = selection.barriers.setdefault(topology_key, {})
        add(holders, node, pods)
        self.barrier_count += pods
        if not holders:
            del selection.barriers[topology_key]

    def set_namespace(self, name: str, labels: dict[str, str]) -> None:
        """A namespace has these labels now."""
        if labels:
            self.namespaces[name] = labels
        else:
            self.namespaces.pop(name, None)
        named = self._by_namespace.get(name, {})
        for pod_class in self._classes.get(name, {}).values():
            for selection in (*named, *self._by_labels_of_namespace):
                self._match(pod_class, selection)

    def forget_pods(self) -> None:
        """No pod asks for anything any more: no class needs to be known."""
        self._classes.clear()
        self._idle.clear()


def add(counts: CountByNode, node: int, pods: int) -> None:
    """Add to a count, and drop it at 0."""
    counts[node] = counts.get(node, 0) + pods
    if not counts[node]:
        del counts[node]
