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
    waiting = {one.title for one in facts.waiting}
    found: set[str] = set()
    # Both are remembered by the cluster for pods that ask and select alike.
    known: dict[tuple[int, int], bool] = {}
    for workload in facts.gpu_workloads:
        for pod in (one for one in workload.pods if one.title in waiting):
            candidates, taken = facts.cluster.candidates(pod.template), facts.cluster.taken(pod.template)
            key = (id(candidates), id(taken))
            if key not in known:
                somewhere = bool(candidates) or not taken.isdisjoint(empty)
                known[key] = somewhere and all(one.name in names for one in candidates)
            if known[key]:
                found |= {workload.title, pod.title}
    return frozenset(found)
