"""Work that waits in a queue that is not there, or in a LocalQueue without its ClusterQueue."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.queues import (
    DEFAULT_QUEUE,
    KUEUE_GROUP,
    Queues,
    Waiting,
    clusters_name,
    waiting_in_queues,
)
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import verb

_FLEET_QUEUE = """\
apiVersion: gpufleet.io/v1alpha1
kind: FleetQueue
metadata:
  name: {name}
spec:
  quotas:
    - resource: gpu
      nominal: 8
"""
_LOCAL_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata:
  name: {name}
  namespace: {namespace}
spec:
  clusterQueue: {cluster_queue}
"""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each queue that is missing, with the work that waits in it."""
    waiting, queues = waiting_in_queues(facts), Queues(facts)
    missing: dict[str, list[Waiting]] = {}
    for one in waiting:
        if title := _missing(queues, one):
            missing.setdefault(title, []).append(one)
    for title, group in missing.items():
        yield _failure(facts, title, group)
    if waiting and not missing:
        yield Good("every queue in which GPU work waits exists")


def _missing(queues: Queues, one: Waiting) -> str:
    """The title of the object that lacks; empty if none does, or no controller reads the name."""
    if one.is_ours:
        # Where no queue is described, none holds work back, whatever it names.
        known = one.name == DEFAULT_QUEUE or not queues.are_ours or queues.fleet_queue(one) is not None
        return "" if known else f"FleetQueue {one.name}"
    if not one.is_kueues or KUEUE_GROUP not in queues.facts.served_groups:
        return ""
    local = queues.local_queue(one)
    if local is None:
        return f"LocalQueue {one.namespace}/{one.name}"
    return "" if queues.cluster_queue(one) is not None else f"ClusterQueue {clusters_name(local)}"


def _failure(facts: Facts, title: str, group: list[Waiting]) -> Failure:
    kind, _, name = title.partition(" ")
    first = group[0]
    names = sorted(
        one.name for one in facts.of_kind(kind) if kind != "LocalQueue" or one.namespace == first.namespace
    )
    near = nearest(name.rpartition("/")[2], names)
    hint = f" (did you mean {near}?)" if near else ""
    cluster_queues = [one.name for one in facts.of_kind("ClusterQueue")]
    manifest = {
        "FleetQueue": _FLEET_QUEUE.format(name=name),
        "LocalQueue": _LOCAL_QUEUE.format(
            name=first.name,
            namespace=first.namespace,
            cluster_queue=min(cluster_queues, default=first.name),
        ),
    }.get(kind, "")
    there = f"there are {listed(names, 6)}" if names else f"there is no {kind} at all"
    titles = tuple(one.workload.title for one in group)
    return Failure(
        f"{listed(titles)}: {verb(len(titles), 'wait')} in a queue that does not exist: {title}",
        titles,
        (f"{first.key}: {first.name}", there),
        (Remedy(f"create it, or name one that exists{hint}", "", manifest),),
        frozenset[str]().union(*(one.affects for one in group)),
    )


CHECK = Check(
    "queue-missing",
    Point.QUOTAS,
    Layer.QUEUE,
    "Queues in which GPU work waits exist",
    "Work waits for a queue that does not exist, and starts by itself once it does.",
    judge,
    written=True,
)
