"""Which pods wait for what: those that would go to certain nodes if these offered their GPUs."""

from collections.abc import Iterable

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView


def held_up_by(facts: Facts, nodes: Iterable[NodeView]) -> frozenset[str]:
    """Titles of waiting GPU pods that select one of the nodes, and of what made them."""
    names = {one.name for one in nodes}
    if not names:
        return frozenset()
    selections = facts.waiting_by_selection.items()
    return frozenset[str]().union(*(titles for taken, titles in selections if not names.isdisjoint(taken)))


def kept_to(facts: Facts, nodes: Iterable[NodeView]) -> frozenset[str]:
    """Titles of waiting GPU pods, and of what made them, that could go to these nodes and to no other.

    A node of these that offers nothing now counts as one that will again.
    """
    given = tuple(nodes)
    names = frozenset(one.name for one in given)
    empty = frozenset(one.name for one in given if not one.offers)
    found: set[str] = set()
    for candidates, taken, titles in facts.once(_by_places):
        somewhere = bool(candidates) or not taken.isdisjoint(empty)
        if somewhere and names.issuperset(candidates):
            found |= titles
    return frozenset(found)


def _by_places(facts: Facts) -> tuple[tuple[frozenset[str], frozenset[str], set[str]], ...]:
    """Waiting GPU pods by where they could go: names of nodes that have what they ask for, of all that they
    select, and titles of the pods and of what made them.
    """
    waiting = {one.title for one in facts.waiting}
    # Both are remembered by the cluster for pods that ask and select alike.
    found: dict[tuple[int, int], tuple[frozenset[str], frozenset[str], set[str]]] = {}
    for workload in facts.gpu_workloads:
        for pod in (one for one in workload.pods if one.title in waiting):
            candidates, taken = facts.cluster.candidates(pod.template), facts.cluster.taken(pod.template)
            key = (id(candidates), id(taken))
            if key not in found:
                found[key] = (frozenset(one.name for one in candidates), taken, set())
            found[key][2].update((workload.title, pod.title))
    return tuple(found.values())
