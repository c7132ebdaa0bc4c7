"""The places that wait for pods to leave them, as they are written into the status of a FleetQueue and read
from there by the next leader and by ``explain``.

A pod's own ``status.nominatedNodeName`` is for others to read: an account that may write it could take a
turn that is not its own. Only the leader writes the status of a queue. What stands there is checked by the
engine all the same (``engine.preempt.recalled_nominations``).
"""

from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.kube.objects.fleet_queues import NominationStatus, ReservedPlaceStatus
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName

NOMINATIONS_MAX = 4096
PLACES_MAX = 8192
WAITED_FOR_MAX = 8192
IMMUNE_TO_MAX = 8192
"""The definition of FleetQueue takes no more nominations, and of one no more places, pods to wait for and
queues that lose by it."""

BYTES_MAX = 768 * 1024
"""Of a queue, in all its nominations together: the API server stores objects of 1.5 MiB."""

_ENCODER = msgspec.json.Encoder()


def written(kept: Iterable[KeptPlaces]) -> dict[QueueName, tuple[NominationStatus, ...]]:
    """What the statuses of the queues say, the first nominations of each that its status has room for."""
    found: dict[QueueName, list[NominationStatus]] = {}
    sizes: dict[QueueName, int] = {}
    for one in kept:
        of_queue, status = found.setdefault(one.queue, []), _status(one)
        size = sizes.get(one.queue, 0) + _size(status)
        if len(of_queue) < NOMINATIONS_MAX and size <= BYTES_MAX and _is_taken(status):
            sizes[one.queue] = size
            of_queue.append(status)
    return {queue: tuple(of_queue) for queue, of_queue in found.items()}


def joined(
    former: Iterable[NominationStatus], now: Sequence[NominationStatus]
) -> tuple[NominationStatus, ...]:
    """The nominations of now, and before them as many of the former ones as a status has room for beside."""
    size, found = sum(map(_size, now)), list[NominationStatus]()
    for one in former:
        size += _size(one)
        if size > BYTES_MAX or len(found) + len(now) == NOMINATIONS_MAX:
            break
        found.append(one)
    return (*found, *now)


def has_room_for(one: KeptPlaces) -> bool:
    """True for a nomination that a status can hold, if it holds no other."""
    status = _status(one)
    return _is_taken(status) and _size(status) <= BYTES_MAX


def says(status: NominationStatus, one: KeptPlaces) -> bool:
    """True if this was written down of a nomination, with every pod that it waits for by now, and every queue
    at whose cost that is.
    """
    now = _status(one)
    same = (status.holder, status.places) == (now.holder, now.places)
    are_written = set(now.waits_for) <= set(status.waits_for) and set(now.immune_to) <= set(status.immune_to)
    return same and are_written


def _size(status: NominationStatus) -> int:
    return len(_ENCODER.encode(status))


def _is_taken(status: NominationStatus) -> bool:
    """True unless the definition of FleetQueue refuses it."""
    is_short = len(status.places) <= PLACES_MAX and len(status.waits_for) <= WAITED_FOR_MAX
    return is_short and len(status.immune_to) <= IMMUNE_TO_MAX


def _status(one: KeptPlaces) -> NominationStatus:
    places = tuple(
        ReservedPlaceStatus(place.uid, place.node, tuple(str(device) for device in place.devices))
        for place in one.places
    )
    return NominationStatus(str(one.holder), one.number, places, one.waits_for, one.immune_to)


def read(statuses: Iterable[NominationStatus], queue: QueueName) -> list[KeptPlaces]:
    """What an earlier leader wrote into the status of a queue."""
    return [
        KeptPlaces(
            GangName(one.holder),
            queue,
            one.number,
            tuple(
                ReservedPlace(PodUid(place.pod), NodeName(place.node), tuple(map(DeviceId, place.devices)))
                for place in one.places
            ),
            tuple(map(PodUid, one.waits_for)),
            tuple(map(QueueName, one.immune_to)),
        )
        for one in statuses
    ]
