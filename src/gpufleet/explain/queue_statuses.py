"""The rows of the answer about queues, from what a scheduler wrote into their statuses last.

This is for users who may not list pods and nodes, and for fleets that are too large to be listed for a look.
Statuses tell no positions. Only the scheduler should write them, but another writer might have.
"""

from gpufleet.cluster.watching.picture import Picture
from gpufleet.explain.queue_answer import MALFORMED, PendingRow, Problem, QueueRow, ResourceRow
from gpufleet.explain.queue_words import policy_row, reservation_row, unread_row
from gpufleet.kube import resources
from gpufleet.kube.codec.fleet_queues import read_fleet_queue
from gpufleet.kube.codec.quota_amounts import read_amount, written_amount
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.mirror_changes import Unreadable
from gpufleet.kube.objects.fleet_queues import ACTIVE, FleetQueue, FleetQueueStatus, ResourceStatus, status_of
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.model_errors import InputError
from gpufleet.model.queue import Quota

NOT_TOLD = Problem("NotTold", "no scheduler has written its status yet")


def rows_by_status(picture: Picture) -> list[QueueRow]:
    """Every FleetQueue."""
    found = [_row(queue) for queue in picture.all(resources.FLEET_QUEUES)]
    for kind, change in picture.unreadable:
        if kind == resources.FLEET_QUEUES and isinstance(change, Unreadable):
            found.append(unread_row(change.name, change.problem))
    return found


def _row(queue: FleetQueue) -> QueueRow:
    status, problems = status_of(queue), []
    stated: dict[str, Quota] = {}
    try:
        stated = {str(one.resource): one for one in read_fleet_queue(queue).queue.quotas}
    except ObjectError as problem:
        problems.append(Problem(MALFORMED, str(problem)))
    problems = _active_problems(status) or problems
    status_amounts = {one.resource: one for one in status.resources}
    rows = []
    for name in sorted({*status_amounts, *stated}):
        try:
            rows.append(_resource(name, status_amounts.get(name), stated.get(name)))
        except InputError as problem:
            problems = [*problems, Problem("StatusUnreadable", f"status.resources: {problem}")]
    return QueueRow(
        queue.metadata.name,
        queue.spec.parent,
        active=not problems,
        problems=tuple(problems),
        policy=policy_row(queue),
        share=status.share,
        dominant_resource=status.dominant_resource,
        resources=tuple(rows),
        pending=tuple(
            PendingRow(one.reason, one.pods)
            for one in (() if status.pending is None else status.pending.reasons)
        ),
        reservation=None if status.reservation is None else reservation_row(status.reservation),
    )


def _active_problems(status: FleetQueueStatus) -> list[Problem]:
    ours = [one for one in status.conditions if one.type == ACTIVE]
    if not ours:
        return [NOT_TOLD]
    return [Problem(one.reason, one.message) for one in ours if one.status == "False"]


def _resource(name: str, status_amounts: ResourceStatus | None, quota: Quota | None) -> ResourceRow:
    resource = QuotaResource(name)

    def stated(units: int | None) -> str | None:
        return None if units is None else written_amount(resource, units)

    def written(amount: str | None, field: str) -> str | None:
        return None if amount is None else written_amount(resource, read_amount(resource, amount, field))

    status = status_amounts or ResourceStatus(name)
    limits = quota or Quota(resource)
    return ResourceRow(
        name,
        used=written(status.used, "used") or "0",
        nominal=written_amount(resource, limits.nominal),
        borrowed=written(status.borrowed, "borrowed") or "0",
        lent=written(status.lent, "lent") or "0",
        fair_share=written(status.fair_share, "fairShare"),
        borrowing_limit=stated(limits.borrowing_limit),
        lending_limit=stated(limits.lending_limit),
        hard_limit=stated(limits.hard_limit),
        protected=written(status.protected, "protected") or "0",
    )
