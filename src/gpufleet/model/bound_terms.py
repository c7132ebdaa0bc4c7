"""What let a pod in: the words that counted when it was bound.

The scheduler writes them into the grant, which only it can change. What the pod, its gang, its namespace or
its priority class say later may only shorten or weaken what it holds; the rest counts when it is placed anew.
"""

import msgspec

from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import QueueName

NEVER_STALE = -1
"""In a grant, where None already means the scheduler's default."""


class BoundGang(msgspec.Struct, frozen=True):
    """The gang with which a pod was bound, and its role there.

    ``gang`` is as it was before any member had succeeded. ``stale_after_us`` is how long it may be short of
    members, NEVER_STALE for any time, None for as long as the scheduler says. ``may_be_deleted``: its owner
    lets a member that no controller makes anew be deleted where the gang cannot be completed.
    """

    gang: Gang
    role: str = ""
    stale_after_us: int | None = None
    may_be_deleted: bool = False


class BoundTerms(msgspec.Struct, frozen=True):
    """What a pod was bound with.

    ``queue`` and ``priority`` are those it was decided with, its gang's where it has one. ``at_us`` is when
    it was bound. ``promises`` are those with which it was let in behind reservations. What else is here means
    what it means in ``model.pod``.
    """

    queue: QueueName
    priority: int
    at_us: int
    preemptible: bool = True
    replaceable: bool = True
    run_time_us: int | None = None
    run_time_max_us: int | None = None
    interruptible: bool = False
    checkpointed_at_us: int | None = None
    promises: tuple[BackfillPromise, ...] = ()
    gang: BoundGang | None = None
