"""Which other pods a pod wants near it or far from it, with the meaning Kubernetes gives the terms.

A term selects pods by label in some namespaces, and speaks of the topology domain (the nodes that
share a value of one label) in which they run. ``relations`` gathers what a pod says of others;
the engine keeps count of the pods that each term selects.
"""

import msgspec

from gpufleet.model.labels import MAXIMUM_WEIGHT, LabelSelector
from gpufleet.model.model_errors import InputError


class NamespaceScope(msgspec.Struct, frozen=True, cache_hash=True):
    """The namespaces in which a term looks: those named, and those with labels that are selected.

    The codec writes the pod's own namespace into ``names`` where the pod says nothing. ``selector`` None
    selects none; an empty selector selects all.
    """

    names: tuple[str, ...] = ()
    selector: LabelSelector | None = None

    def accepts(self, namespace: str, labels: dict[str, str]) -> bool:
        """True if pods of this namespace, which has these labels, are looked at."""
        if namespace in self.names:
            return True
        return self.selector is not None and self.selector.accepts(labels)


class PodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods with these labels in these namespaces, in a domain of ``topology_key``.

    ``selector`` None selects no pod, an empty one all of them, as in Kubernetes.
    """

    topology_key: str
    scope: NamespaceScope
    selector: LabelSelector | None = None

    def __post_init__(self) -> None:
        if not self.topology_key:
            raise InputError("no topology key", field="topologyKey", expected="the name of a node label")


class PreferredPodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A term that makes a domain better by ``weight``, or worse where it is negative (-100 to 100)."""

    weight: int
    term: PodTerm

    def __post_init__(self) -> None:
        if not 1 <= abs(self.weight) <= MAXIMUM_WEIGHT:
            expected = f"an integer from 1 to {MAXIMUM_WEIGHT}"
            raise InputError("a weight out of range", field="weight", value=self.weight, expected=expected)
