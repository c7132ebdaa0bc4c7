"""The devices of a prepared claim as they are on this node now.

After a reboot a card may have another number, and an instance at the same place another UUID. After an
update of the driver its files have other names.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from gpufleet.agent.device_plugin.cdi import CdiEdits
from gpufleet.agent.dra.offered_device import OfferedDevice
from gpufleet.agent.dra.prepared_claims import PreparedClaim, PreparedDevice, Stage
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.kube.objects.resource_claims import WrittenAllocation, WrittenResult

Edits = Callable[[Gpu, str], CdiEdits | None]
"""What a container gets for a card or a part of it; None where the files of its driver are not there."""


def device_of(result: WrittenResult, offered: OfferedDevice, gpu: Gpu, edits: CdiEdits) -> PreparedDevice:
    """A device of an allocation. One that is made for its claim has its instance and edits later."""
    if offered.made is not None:
        place, slices, edits = offered.made.place, offered.made.slices, CdiEdits()
        profile, start = ("", None) if place is None else (place.profile, place.start)
    else:
        part, slices = gpu.instance(offered.instance), 0
        profile, start = ("", None) if part is None else (part.profile, part.start)
    return PreparedDevice(
        result.request,
        result.pool,
        result.device,
        gpu.uuid,
        offered.instance,
        profile,
        start,
        edits,
        result.share_id,
        bool(result.admin_access),
        slices,
    )


def is_there(device: PreparedDevice, gpu: Gpu) -> bool:
    """Whether a card has what is made of it for a claim."""
    return not gpu.facts.mig_enabled if device.place is None else gpu.instance_at(device.place) is not None


def as_it_is(claim: PreparedClaim, boot_id: str, node: NodeGpus, edits: Edits) -> PreparedClaim | None:
    """The claim as it is now; None where a device of it was not found since the node was booted, or made.

    A device that is not seen for a while stays as it was in this boot.
    """
    is_of_this_boot = claim.boot_id == boot_id
    found = [_found_again(one, node.gpu(one.gpu), edits, by_uuid=is_of_this_boot) for one in claim.devices]
    if None in found and (not is_of_this_boot or claim.stage is Stage.MAKING):
        return None
    devices = tuple(now or before for now, before in zip(found, claim.devices, strict=True))
    return msgspec.structs.replace(claim, boot_id=boot_id, devices=devices, stage=Stage.READY)


def _found_again(
    device: PreparedDevice, gpu: Gpu | None, edits: Edits, *, by_uuid: bool
) -> PreparedDevice | None:
    if gpu is None or (device.slices and not is_there(device, gpu)):
        return None
    instance = device.instance
    if instance or (device.slices and device.place):
        by_place = device.slices or not by_uuid
        at_place = None if device.place is None else gpu.instance_at(device.place)
        part = at_place if by_place else gpu.instance(instance)
        if part is None:
            return None
        instance = part.uuid
    now = edits(gpu, instance)
    # Files of a driver that is being replaced are missing for a while.
    if now is None or (device.edits.mounts and not now.mounts):
        return None
    return msgspec.structs.replace(device, instance=instance, edits=now)


def is_of(claim: PreparedClaim, found: WrittenAllocation) -> bool:
    """Whether a claim was prepared for the devices that it has now."""
    prepared = {(one.request, one.pool, one.device, one.share_id, one.by_admin) for one in claim.devices}
    return prepared == {
        (one.request, one.pool, one.device, one.share_id, bool(one.admin_access))
        for one in found.devices.results
        if one.driver == claim.driver
    }


def holders(
    prepared: Iterable[PreparedClaim], made: PreparedClaim, device: PreparedDevice
) -> Iterator[PreparedClaim]:
    """Other claims that hold a device for themselves."""
    return (
        claim
        for claim in prepared
        if claim.uid != made.uid and any(one.overlaps(device) for one in claim.devices if not one.by_admin)
    )
