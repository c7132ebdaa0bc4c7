"""What an answer about queues takes from the FleetQueues themselves: policies, reasons, reservations."""

from collections.abc import Mapping

from gpufleet.explain.queue_answer import (
    MALFORMED,
    PendingRow,
    PolicyRow,
    Problem,
    QueueRow,
    ReservationRow,
)
from gpufleet.kube.objects.fleet_queues import FleetQueue, ReservationStatus


def pending_rows(counts: Mapping[str, int]) -> tuple[PendingRow, ...]:
    """The larger number first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(PendingRow(reason, pods) for reason, pods in ranked)


def policy_row(queue: FleetQueue | None) -> PolicyRow | None:
    """What its owner decided; None where the object cannot be read."""
    if queue is None:
        return None
    spec = queue.spec
    return PolicyRow(
        spec.state,
        spec.priority,
        str(spec.weight),
        spec.ordering,
        spec.preemption.within_queue,
        spec.preemption.reclaim,
        spec.preemption.borrowing,
        spec.preemption.preempt_after,
        spec.preemption.reclaim_after,
        spec.run_time_max,
        spec.half_life,
        spec.namespaces,
        spec.learn_run_times,
        spec.preemption.elastic_after,
        spec.preemption.victim_order,
    )


def unread_row(name: str, problem: str, queue: FleetQueue | None = None) -> QueueRow:
    """A queue that means nothing; ``queue`` is the object where at least its form can be read."""
    parent = None if queue is None else queue.spec.parent
    problems = (Problem(MALFORMED, problem),)
    return QueueRow(name, parent, active=False, problems=problems, policy=policy_row(queue))


def reservation_row(status: ReservationStatus) -> ReservationRow:
    """The row of a reservation as it stands in a status; a status without places tells no number of nodes."""
    kind = "gang" if status.holder == status.name else "pod"
    # A pod is "namespace/name"; a gang has the kind of its group before that.
    path, _, name = status.name.rpartition("/")
    nodes = len({place.node for place in status.places})
    since, start = _whole(status.since) or "", _whole(status.expected_start)
    return ReservationRow(kind, path.rpartition("/")[2], name, nodes, since, start)


def _whole(moment: str | None) -> str | None:
    """A moment as people read it, in whole seconds."""
    return None if moment is None else moment.partition(".")[0].removesuffix("Z") + "Z"
