"""The places that wait for pods to leave them, for work of no FleetQueue, as conditions of its pods: the next
leader and ``explain`` read them there.

No queue has a status for such work (``cluster.queues.nomination_records``). The record of a pod is its own
condition ``gpufleet.io/Nominated``, beside Kubernetes' ``status.nominatedNodeName``, which names the node for
others to read. A gang's record counts only if all its parts are there, and of one nomination. What stands
there is checked by the engine all the same (``engine.preempt.recalled_nominations``).
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.kube.codec.nomination_parts import NominationPart
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName

Holder = PodUid | GangName
Parts = Mapping[PodUid, NominationPart]


def parts_of(one: KeptPlaces) -> dict[PodUid, NominationPart]:
    """What is written of a nomination: by pod its own place, and its share of the pods to wait for."""
    count, digest = len(one.places), _digest(one)
    return {
        place.uid: NominationPart(
            place.node,
            tuple(map(str, place.devices)),
            # Dealt out over all pods of the workload, because the condition of one pod has little room.
            one.waits_for[index::count],
            one.number,
            index + 1,
            count,
            digest,
        )
        for index, place in enumerate(one.places)
    }


def joined(holder: Holder, queue: QueueName, parts: Parts) -> KeptPlaces | None:
    """What an earlier leader wrote of a workload; None unless all of it is there."""
    if not parts:
        return None
    in_order = sorted(parts.items(), key=lambda one: one[1].place)
    first = in_order[0][1]
    if len(parts) != first.places or first.places != in_order[-1][1].place:
        return None
    places = tuple(
        ReservedPlace(uid, NodeName(one.node), tuple(map(DeviceId, one.devices))) for uid, one in in_order
    )
    length = max(len(one.waits_for) for _, one in in_order)
    # The shares were dealt out one by one, and are taken back in that order.
    waits_for = tuple(
        one.waits_for[turn] for turn in range(length) for _, one in in_order if turn < len(one.waits_for)
    )
    found = KeptPlaces(holder, queue, min(one.number for _, one in in_order), places, waits_for)
    digest = _digest(found)
    return found if all(one.digest == digest for _, one in in_order) else None


def says(found: KeptPlaces | None, one: KeptPlaces) -> bool:
    """True if this was written of a nomination, with every pod that it waits for by now."""
    if found is None or found.holder != one.holder:
        return False
    return _places(found) == _places(one) and set(one.waits_for) <= set(found.waits_for)


def recalled(parts: Iterable[tuple[Holder, QueueName, PodUid, NominationPart]]) -> list[KeptPlaces]:
    """What an earlier leader wrote of all workloads, by what stands in their pods."""
    by_holder: dict[tuple[Holder, QueueName], dict[PodUid, NominationPart]] = {}
    for holder, queue, uid, part in parts:
        by_holder.setdefault((holder, queue), {})[uid] = part
    found = (joined(holder, queue, some) for (holder, queue), some in by_holder.items())
    return [one for one in found if one is not None]


def _places(one: KeptPlaces) -> list[tuple[str, str, list[str]]]:
    return [(place.uid, place.node, list(map(str, place.devices))) for place in one.places]


def _digest(one: KeptPlaces) -> str:
    content = msgspec.json.encode((one.holder, _places(one), one.waits_for))
    return hashlib.sha256(content).hexdigest()[:32]
