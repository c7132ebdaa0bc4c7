"""Pods that are not evicted for a queue, in its status: written and read again, of many the last."""

from gpufleet.cluster.queues.immunity_records import PODS_MAX, read, written
from gpufleet.engine.event import ImmunePods
from gpufleet.model.identifiers import PodUid, QueueName

TEAM, OTHER = QueueName("team"), QueueName("other")


def uids(count: int) -> tuple[PodUid, ...]:
    return tuple(PodUid(f"p{number}") for number in range(count))


def test_what_is_written_is_read_again_queue_by_queue() -> None:
    told = (ImmunePods(TEAM, uids(3)), ImmunePods(OTHER, uids(1)))
    found = written(told)
    assert tuple(read(found[one.queue], one.queue) for one in told) == told


def test_a_status_has_the_pods_that_got_their_places_last() -> None:
    assert written([ImmunePods(TEAM, uids(PODS_MAX + 2))])[TEAM] == uids(PODS_MAX + 2)[2:]
