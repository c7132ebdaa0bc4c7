"""The places that wait for pods to leave them, as they are written into the status of a FleetQueue and read
from there by the next leader and by ``explain``.

A pod's own ``status.nominatedNodeName`` is for others to read: whoever may write it could take a turn that is
not its own. Only the leader writes the status of a queue. What stands there is checked by the engine all the
same (``engine.preempt.recalled_nominations``).
"""

from collections.abc import Iterable

from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.kube.objects.fleet_queues import NominationStatus, ReservedPlaceStatus
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName

NOMINATIONS_MAX = 256
PLACES_MAX = 1024
DEVICES_MAX = 4096
WAITED_FOR_MAX = 4096
"""Of a queue, in all its nominations together: the status stays far below what the API server stores."""


def written(kept: Iterable[KeptPlaces]) -> dict[QueueName, tuple[NominationStatus, ...]]:
    """What the statuses of the queues say, the first nominations of each that its status has room for."""
    found: dict[QueueName, list[NominationStatus]] = {}
    sizes: dict[QueueName, tuple[int, int, int]] = {}
    for one in kept:
        places, devices, waited_for = sizes.get(one.queue, (0, 0, 0))
        places += len(one.places)
        devices += sum(len(place.devices) for place in one.places)
        waited_for += len(one.waits_for)
        of_queue = found.setdefault(one.queue, [])
        is_too_large = places > PLACES_MAX or devices > DEVICES_MAX or waited_for > WAITED_FOR_MAX
        if is_too_large or len(of_queue) == NOMINATIONS_MAX:
            continue
        sizes[one.queue] = (places, devices, waited_for)
        of_queue.append(_status(one))
    return {queue: tuple(of_queue) for queue, of_queue in found.items()}


def _status(one: KeptPlaces) -> NominationStatus:
    places = tuple(
        ReservedPlaceStatus(place.uid, place.node, tuple(str(device) for device in place.devices))
        for place in one.places
    )
    return NominationStatus(str(one.holder), one.number, places, one.waits_for)


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
        )
        for one in statuses
    ]
