"""Nominations in the statuses of queues: written and read again, within the limits of the definition."""

import msgspec
import pytest

from gpufleet.cluster.queues.nomination_records import (
    IMMUNE_TO_MAX,
    NOMINATIONS_MAX,
    PLACES_MAX,
    WAITED_FOR_MAX,
    has_room_for,
    joined,
    read,
    says,
    written,
)
from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.kube.objects.fleet_queues import NominationStatus
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


def at_the_cost_of(queues: int) -> KeptPlaces:
    """A nomination by which so many queues lose."""
    return msgspec.structs.replace(kept(1), immune_to=tuple(QueueName(f"q{one}") for one in range(queues)))


def numbers(*told: KeptPlaces) -> list[int]:
    return [one.number for one in written(told)[TEAM]]


def test_what_is_written_is_read_again_queue_by_queue() -> None:
    told = (kept(3, places=2, devices=4, waits_for=3), kept(5, queue=OTHER), at_the_cost_of(2))
    found = written(told)
    assert read(found[TEAM], TEAM) == [told[0], told[2]]
    assert read(found[OTHER], OTHER) == [told[1]]


def test_a_status_has_the_first_nominations_that_it_has_room_for() -> None:
    many = [kept(number, devices=0) for number in range(NOMINATIONS_MAX + 1)]
    assert numbers(*many) == list(range(NOMINATIONS_MAX))
    assert numbers(kept(1), kept(2, places=PLACES_MAX + 1), kept(3)) == [1, 3]
    assert numbers(kept(1), kept(2, waits_for=WAITED_FOR_MAX + 1), kept(3)) == [1, 3]
    assert numbers(at_the_cost_of(IMMUNE_TO_MAX + 1), kept(3)) == [3]


def test_former_nominations_stay_beside_those_of_now_as_far_as_there_is_room() -> None:
    def all_of(count: int, first: int = 0) -> tuple[NominationStatus, ...]:
        return written([kept(first + number, devices=0) for number in range(count)])[TEAM]

    assert joined(all_of(2), all_of(2, first=5)) == (*all_of(2), *all_of(2, first=5))
    now = all_of(NOMINATIONS_MAX - 1, first=5)
    assert joined(all_of(2), now) == (*all_of(1), *now)
    large = written([kept(1, places=5000, devices=8)])[TEAM]
    assert joined(large, large) == large


def test_a_record_says_a_nomination_only_with_all_queues_that_lose_by_it() -> None:
    (status,) = written([at_the_cost_of(1)])[TEAM]
    assert says(status, at_the_cost_of(1))
    assert says(status, kept(1))
    assert not says(status, at_the_cost_of(2))


@pytest.mark.parametrize("devices", [1, 8, 64])
def test_all_nominations_of_a_queue_take_half_of_what_the_api_server_stores(devices: int) -> None:
    """Objects of 1.5 MiB are stored (etcd, --max-request-bytes). One more would take more than half of it."""
    many = [kept(number, places=8, devices=devices, waits_for=8) for number in range(NOMINATIONS_MAX)]
    found = written(many)[TEAM]
    size = len(msgspec.json.encode(found))
    each = size / len(found)
    assert len(found) < len(many)
    assert 768 * 1024 - 2 * each < size <= 768 * 1024 + len(found)


def test_a_nomination_has_room_if_a_status_can_hold_it_alone() -> None:
    assert has_room_for(kept(1, places=500, devices=8, waits_for=4000))
    assert not has_room_for(kept(1, places=PLACES_MAX + 1))
    assert not has_room_for(kept(1, places=8000, devices=8))


def test_a_record_says_a_nomination_with_its_places_and_each_pod_that_it_still_waits_for() -> None:
    (told,) = written([kept(1, waits_for=3)])[TEAM]
    assert not says(told, kept(9, waits_for=2)), "another pod is the holder"
    again = msgspec.structs.replace(kept(1, waits_for=2), number=9)
    assert says(told, again)
    assert not says(told, kept(1, waits_for=4))
    assert not says(told, kept(1, places=2, waits_for=3))
    assert not says(told, kept(1, devices=2, waits_for=3))
