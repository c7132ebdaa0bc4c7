"""A pod that wants to run, or runs."""

import msgspec

from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.identifiers import DEFAULT_QUEUE, GangName, PodUid, QueueName
from gpufleet.model.resource_names import is_part_of_gpu
from gpufleet.model.shape import Shape


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod: its identity, its shape, and what decides its turn.

    Higher ``priority`` goes first; equal priorities go by ``created_at_us``. ``name`` is for people
    ("namespace/name"), and tells which pods were made alike; ``uid`` is what decisions are keyed by.
    ``namespace`` and ``labels`` (sorted) are what other pods' affinity and spread look at. ``role`` is the
    pod's part in its gang, "" where the gang knows no roles. ``leaving`` is a pod that was told to end: it
    holds what it has until it is gone, but topology spread no longer counts it. A pod that is not
    ``preemptible`` is never evicted for another's sake; one that is ``replaceable`` is made anew by a
    controller when it ends, so it may be moved. ``run_time_us`` is how long it says that it runs at most,
    None where it does not say. ``interruptible``: it says that it may be ended at any time, without loss. A
    pod that has run for ``run_time_max_us`` is ended; None leaves that limit to its queue. A ``foreign`` pod
    was placed by another scheduler: no limit of ours on run times applies to it. Where ``preempts`` is False,
    no pod is evicted for this pod or its gang. ``promises`` are those with which it was let in behind
    reservations, None where its grant does not say.
    """

    uid: PodUid
    shape: Shape
    name: str = ""
    queue: QueueName = DEFAULT_QUEUE
    priority: int = 0
    gang: GangName | None = None
    created_at_us: int = 0
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    role: str = ""
    leaving: bool = False
    preemptible: bool = True
    replaceable: bool = True
    run_time_max_us: int | None = None
    foreign: bool = False
    preempts: bool = True
    run_time_us: int | None = None
    interruptible: bool = False
    # Logs have always said ``seats``, and a log must read alike for ever.
    promises: tuple[BackfillPromise, ...] | None = msgspec.field(default=None, name="seats")

    @property
    def workload(self) -> PodUid | GangName:
        """The name of what it starts with: its gang, or for a pod of none its own uid."""
        return self.uid if self.gang is None else self.gang

    @property
    def is_service(self) -> bool:
        """True for what another scheduler placed without a GPU, such as a service of the cluster.

        A MIG instance and a share in time, which are counted by their names, are of a GPU.
        """
        return self.foreign and not (self.shape.gpu.count or self._holds_parts)

    @property
    def _holds_parts(self) -> bool:
        return any(amount and is_part_of_gpu(name) for name, amount in self.shape.resources.other)

    @property
    def makes_room(self) -> bool:
        """True if it may be evicted for another's sake."""
        return self.preemptible and not self.is_service
