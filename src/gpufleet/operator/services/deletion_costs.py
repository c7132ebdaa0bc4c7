"""Which replica of a ReplicaSet shall end first: the one whose end frees the most useful room.

Kubernetes ends the replica of the least cost, among those that are equally ready. Room is useful where work
that waits fits then and did not before, the largest such work first; then where a node has more GPUs free
together. Replicas that free as useful room have one cost, and Kubernetes chooses among them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpufleet.operator.services.service_pods import DELETION_COST, OUR_COST, ServiceNode, ServicePod

PodKey = tuple[str, str]
"""Namespace and name."""


def deletion_costs(pods: Sequence[ServicePod], nodes: Iterable[ServiceNode]) -> Mapping[PodKey, int]:
    """The cost that each replica with GPUs should have, by pod. ReplicaSets of which a pod has a cost of its
    owner's own are left out.
    """
    free = free_gpus(pods, nodes)
    wanted = sorted({pod.gpus for pod in pods if pod.waits is not None and pod.gpus}, reverse=True)
    found: dict[PodKey, int] = {}
    for replicas in _placed_by_replica_set(pods).values():
        if len(replicas) < 2 or any(_has_own_cost(pod) for pod in replicas):
            continue
        useful = [_usefulness(pod, free, wanted) for pod in replicas]
        # The least useful room costs 0, which is what a pod without a cost has; new replicas have none.
        order = {value: -rank for rank, value in enumerate(sorted(set(useful)))}
        for pod, value in zip(replicas, useful, strict=True):
            found[pod.metadata.namespace, pod.metadata.name] = order[value]
    return found


def free_gpus(pods: Iterable[ServicePod], nodes: Iterable[ServiceNode]) -> Mapping[str, int]:
    """The GPUs of each node that no pod has."""
    taken: Counter[str] = Counter()
    for pod in pods:
        if pod.is_there and pod.spec.node_name:
            taken[pod.spec.node_name] += pod.gpus
    return {node.metadata.name: max(0, node.gpus - taken[node.metadata.name]) for node in nodes}


def _placed_by_replica_set(pods: Iterable[ServicePod]) -> Mapping[tuple[str, str], list[ServicePod]]:
    found: defaultdict[tuple[str, str], list[ServicePod]] = defaultdict(list)
    for pod in pods:
        owner = pod.replica_set
        if owner is not None and pod.gpus and pod.is_there and pod.spec.node_name:
            found[owner].append(pod)
    return found


def _has_own_cost(pod: ServicePod) -> bool:
    said = pod.metadata.annotations
    return DELETION_COST in said and said[DELETION_COST] != said.get(OUR_COST)


def _usefulness(pod: ServicePod, free: Mapping[str, int], wanted: Sequence[int]) -> tuple[int, int]:
    """The largest work that waits and fits then, in GPUs, and how many GPUs of the node are free then."""
    before = free.get(pod.spec.node_name, 0)
    after = before + pod.gpus
    fits = next((gpus for gpus in wanted if before < gpus <= after), 0)
    return fits, after
