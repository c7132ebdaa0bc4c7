"""Which pods are not evicted for a queue, as it is written into the status of its FleetQueue and read from
there by the next leader and by ``explain``.

These pods got their places at the cost of the queue (``engine.lifecycle.eviction_immunity``). Of many a
status has those that got theirs last. The engine takes no notice of pods that are not there any more.
"""

from collections.abc import Iterable, Sequence

from gpufleet.engine.event import ImmunePods
from gpufleet.model.identifiers import PodUid, QueueName

PODS_MAX = 4096
"""As many as the definition of FleetQueue takes; they are 160 KiB."""


def written(immune: Iterable[ImmunePods]) -> dict[QueueName, tuple[str, ...]]:
    """What the statuses of the queues say."""
    return {one.queue: one.pods[-PODS_MAX:] for one in immune}


def read(uids: Sequence[str], queue: QueueName) -> ImmunePods:
    """What an earlier leader wrote into the status of a queue."""
    return ImmunePods(queue, tuple(map(PodUid, uids)))
