"""Work that asks for more than its queue may ever have, down to a queue that has none of it."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.queues import Queues, Waiting, waiting_in_queues
from gpufleet.lint.objects import queue_quotas
from gpufleet.lint.objects.manifest import Manifest


def judge(facts: Facts) -> Iterator[Failure]:
    """Each workload of which not even one pod may ever start."""
    bounds, queues = queue_quotas.Queues(_of_queues(facts), facts.listed), Queues(facts)
    for one in waiting_in_queues(facts):
        queue = queues.fleet_queue(one) if one.is_ours else queues.cluster_queue(one)
        asked = _asked(one)
        if queue is None or not (one.is_ours or one.is_kueues):
            continue
        for resource, count in asked.items():
            if queue.kind == "ClusterQueue" and not _counts(queue, resource):
                yield _failure(
                    one, queue, f"no flavor of the queue has {resource}", f"asks for {count} {resource}"
                )
                break
            bound = bounds.bound(one.key, one.name, one.namespace, resource)
            if isinstance(bound, queue_quotas.Bound) and bound.most < count:
                seen = f"{resource}: at most {float(bound.most):g}, borrowed quota included"
                yield _failure(
                    one, queue, f"a pod asks for {count} {resource}, and the queue never has them", seen
                )
                break


def _of_queues(facts: Facts) -> tuple[Manifest, ...]:
    return facts.of_kind("FleetQueue", "ClusterQueue", "LocalQueue", "Cohort")


def _asked(one: Waiting) -> dict[str, int]:
    """The most that one of its pods asks for."""
    found: dict[str, int] = {}
    for template in one.workload.manifest.templates:
        for name, count in template.asked_devices.items():
            found[name] = max(found.get(name, 0), count)
    return found


def _counts(queue: Manifest, resource: str) -> bool:
    return any(
        name.text == resource
        for group in queue.root.at("spec", "resourceGroups").items()
        for name in group.at("coveredResources").items()
    )


def _failure(one: Waiting, queue: Manifest, says: str, seen: str) -> Failure:
    edit = get_command(queue).replace("kubectl get", "kubectl edit", 1)
    return Failure(
        f"{one.workload.title} in {queue.title}: {says}",
        (one.workload.title, queue.title),
        (seen,),
        (Remedy("raise the queue's quota, let it borrow, or name another queue", edit),),
        one.affects,
    )


CHECK = Check(
    "queue-without-quota",
    Point.QUOTAS,
    Layer.QUEUE,
    "Queues may have what their work asks for",
    "What is above the quota of a queue, borrowed quota included, waits for ever.",
    judge,
    written=True,
)
