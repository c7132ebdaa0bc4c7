"""Words on other pods: which of them a term selects, and which stand in the way."""

from collections.abc import Iterable

from gpufleet.engine.node_reasons.case import Case
from gpufleet.engine.node_reasons.free_room import PlacedPod
from gpufleet.model.phrases import listed
from gpufleet.model.pod import Pod
from gpufleet.model.pod_affinity import PodTerm


def named(pods: Iterable[PlacedPod]) -> str:
    """Pods by name."""
    return listed(one.name for one in pods) or "another pod"


def selects(case: Case, term: PodTerm, other: Pod) -> bool:
    """True if a term of affinity selects a pod."""
    scope = term.scope.accepts(other.namespace, case.labels_of(other.namespace))
    return scope and term.selector is not None and term.selector.accepts(dict(other.labels))


def ways_apart(holders: list[PlacedPod]) -> tuple[str, ...]:
    """The ways out where pods must keep away from each other."""
    return (
        f"wait until {named(holders[:1])} ends",
        "use preferred anti-affinity, or more nodes than pods that keep apart",
    )
