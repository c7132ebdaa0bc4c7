"""Which devices the pods of one node have: as the node's agent reports, and for the rest as granted.

A grant is an intent. The kubelet gives whole devices by a choice of its own, and the agent reports what it
gave; that is where the pod is booked. Pods that nothing is reported of yet are booked as granted, and where
another pod was given a device of theirs, on the device that this pod left: the kubelet can still give it to
them.

What does not fit all the same is a conflict: the pods that came last to a device give way. A pod that holds a
device, by the kubelet's word, came before pods that hold none yet; otherwise the time at which they were
placed counts.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import DeviceId, PodUid
from gpufleet.model.shape import GpuRequest

Devices = tuple[DeviceId | None, ...]


class Claim(msgspec.Struct, frozen=True):
    """A pod on the node with what it asked for, was granted and holds. ``placed_at_us`` 0 is unknown.

    ``replicas`` are those devices of which it holds a replica or an instance, although it asked as for whole
    ones: the kubelet counts them, and as many as it says fit.
    """

    uid: PodUid
    request: GpuRequest
    granted: tuple[DeviceId, ...] = ()
    held: tuple[DeviceId, ...] = ()
    replicas: frozenset[DeviceId] = frozenset()
    placed_at_us: int = 0

    @property
    def order(self) -> tuple[bool, int, str]:
        """The rank of a claim: holders of devices first, then pods by the time at which they were placed."""
        return not self.held, self.placed_at_us, self.uid

    def alone_on(self, device: DeviceId) -> bool:
        """Whether it has this device whole, if it has it."""
        return self.request.whole and device not in self.replicas


class Conflict(msgspec.Struct, frozen=True):
    """A pod on a device that is taken by pods that came before it: ``holders``."""

    uid: PodUid
    device: DeviceId
    holders: tuple[PodUid, ...]


def devices_of(count: int, granted: Sequence[DeviceId], held: Sequence[DeviceId]) -> Devices:
    """What one pod has: all that it holds, then what it was granted, then unknown ones."""
    known = (*held, *(device for device in granted if device not in held))
    return (*known, *[None] * (count - len(known)))[:count]


def booked(claims: Iterable[Claim]) -> dict[PodUid, Devices]:
    """The devices of each pod of a node."""
    claims = sorted(claims, key=lambda claim: claim.order)
    found = {claim.uid: devices_of(claim.request.count, claim.granted, claim.held) for claim in claims}
    taken = {device for claim in claims for device in claim.held if claim.alone_on(device)}
    spoken_for = {device for claim in claims for device in (claim.held or claim.granted)}
    # Pods that hold other devices than they were granted leave the granted ones, if no other pod holds them
    # or waits for them.
    left = list(
        dict.fromkeys(
            device
            for claim in claims
            if claim.held and claim.request.whole
            for device in claim.granted
            if device not in spoken_for
        )
    )
    for claim in claims:
        if claim.held or not claim.request.whole:
            continue
        devices = list(found[claim.uid])
        for at, device in enumerate(devices):
            if device in taken and left:
                devices[at] = left.pop(0)
        found[claim.uid] = tuple(devices)
    return found


def conflicts(
    claims: Iterable[Claim], found: Mapping[PodUid, Devices], memory_mib: Mapping[DeviceId, int | None]
) -> list[Conflict]:
    """The pods that have to give way, each for one device. ``memory_mib`` is that of each device."""
    by_device: dict[DeviceId, list[Claim]] = {}
    for claim in sorted(claims, key=lambda claim: claim.order):
        for device in found[claim.uid]:
            if device is not None:
                by_device.setdefault(device, []).append(claim)
    conflicts_by_uid: dict[PodUid, Conflict] = {}
    for device, sharing in by_device.items():
        if _fits(device, sharing, memory_mib.get(device)):
            continue
        kept: list[Claim] = []
        for claim in sharing:
            if _fits(device, [*kept, claim], memory_mib.get(device)):
                kept.append(claim)
            else:
                conflicts_by_uid.setdefault(
                    claim.uid, Conflict(claim.uid, device, tuple(one.uid for one in kept))
                )
    return list(conflicts_by_uid.values())


def _fits(device: DeviceId, claims: Sequence[Claim], memory_mib: int | None) -> bool:
    """Whether these pods can have one device together."""
    if len(claims) == 1:
        return True
    if any(claim.alone_on(device) for claim in claims):
        return False
    shares = [claim.request for claim in claims if not claim.request.whole]
    if sum(share.gpu_milli for share in shares) > WHOLE_GPU_MILLI:
        return False
    if all(claim.held for claim in claims):
        # The pods run together already: a card that reports less memory than before ends none of them.
        return True
    return memory_mib is None or sum(_memory_mib(share, memory_mib) for share in shares) <= memory_mib


def _memory_mib(request: GpuRequest, memory_mib: int) -> int:
    if request.memory_mib is not None:
        return request.memory_mib
    return memory_mib * request.gpu_milli // WHOLE_GPU_MILLI
