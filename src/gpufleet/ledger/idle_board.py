"""Jobs that hold GPUs without using them, by the idle part of their GPUs; the most money comes first.

Only measured time counts: of a job whose use is not known nothing is called idle.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.ledger.buckets import HELD_BUCKETS, Bucket
from gpufleet.ledger.costs import Group

IDLE_BY = ("namespace", "job", "model", "bucket")
"""What the groups are put together by, from which the board is made."""


class IdleJob(msgspec.Struct, frozen=True):
    """A job on GPUs of a model. Quantities are in thousandths of a GPU times microseconds.

    ``held`` is all of its time, ``measured`` that of which its use is known, ``idle`` the unused part of it.
    """

    namespace: str
    job: str
    model: str
    held: int
    measured: int
    idle: int
    idle_micro: int | None

    @property
    def command(self) -> str:
        """What says how the job would need fewer GPUs."""
        return f"gpufleet advise sharing --prometheus URL --namespace {self.namespace}"


def idle_jobs(groups: Iterable[Group]) -> tuple[IdleJob, ...]:
    """The jobs that were idle for some time, of groups by ``IDLE_BY``."""
    found: dict[tuple[str, str, str], IdleJob] = {}
    for group in groups:
        namespace, job, model, bucket = group.key
        if bucket not in HELD_BUCKETS or namespace is None:
            continue
        key = namespace, job or "", model or ""
        known = found.get(key, IdleJob(*key, held=0, measured=0, idle=0, idle_micro=None))
        is_idle = bucket == Bucket.IDLE_HELD
        is_measured = is_idle or bucket == Bucket.USED
        idle_micro = known.idle_micro
        if is_idle and group.gpu_micro is not None:
            # Each job and model has one group of idle time, so nothing is added up here.
            idle_micro = group.gpu_micro
        found[key] = IdleJob(
            *key,
            held=known.held + group.quantity,
            measured=known.measured + (group.quantity if is_measured else 0),
            idle=group.quantity if is_idle else known.idle,
            idle_micro=idle_micro,
        )
    idle = (one for one in found.values() if one.idle)
    return tuple(
        sorted(idle, key=lambda one: (-(one.idle_micro or 0), -one.idle, one.namespace, one.job, one.model))
    )
