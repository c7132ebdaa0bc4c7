"""Nominations in the statuses of queues: written and read again, within the limits of the definition."""

from gpufleet.cluster.queues.nomination_records import (
    DEVICES_MAX,
    NOMINATIONS_MAX,
    PLACES_MAX,
    WAITED_FOR_MAX,
    read,
    written,
)
from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName

TEAM, OTHER = QueueName("team"), QueueName("other")


def kept(
    number: int, *, queue: QueueName = TEAM, places: int = 1, devices: int = 1, waits_for: int = 1
) -> KeptPlaces:
    """A nomination of so many pods with so many devices each."""
    held = tuple(DeviceId(f"GPU-{index}") for index in range(devices))
    return KeptPlaces(
        PodUid(f"pod-{number}"),
        queue,
        number,
        tuple(ReservedPlace(PodUid(f"pod-{index}"), NodeName("n"), held) for index in range(places)),
        tuple(PodUid(f"victim-{index}") for index in range(waits_for)),
    )


def numbers(*told: KeptPlaces) -> list[int]:
    return [one.number for one in written(told)[TEAM]]


def test_what_is_written_is_read_again_queue_by_queue() -> None:
    told = (kept(3, places=2, devices=4, waits_for=3), kept(5, queue=OTHER), kept(8, devices=0))
    found = written(told)
    assert read(found[TEAM], TEAM) == [told[0], told[2]]
    assert read(found[OTHER], OTHER) == [told[1]]


def test_a_status_has_the_first_nominations_that_it_has_room_for() -> None:
    many = [kept(number) for number in range(NOMINATIONS_MAX + 1)]
    assert numbers(*many) == list(range(NOMINATIONS_MAX))
    assert numbers(kept(1), kept(2, places=PLACES_MAX), kept(3)) == [1, 3]
    assert numbers(kept(1), kept(2, devices=DEVICES_MAX), kept(3)) == [1, 3]
    assert numbers(kept(1), kept(2, waits_for=WAITED_FOR_MAX), kept(3)) == [1, 3]
