"""How a device is called that is a part of a card: a replica, a MIG instance offered as a GPU, or both.

A card that several pods take turns on, or that is cut into instances which go by the name of whole GPUs, is
several devices to the scheduler. Their ids say what they are and outlive a reboot, as MIG's own UUIDs do not:
``GPU-5b7c::3`` is the fourth replica of a card, ``GPU-5b7c::1g.10gb@4`` the instance that begins at its fifth
memory slice, ``GPU-5b7c::1g.10gb@4::0`` a replica of that. ``node`` has the devices.
"""

import re

import msgspec

from gpufleet.model.identifiers import DeviceId

SEPARATOR = "::"
_PLACE = re.compile(r"([0-9]+g\.[0-9]+gb(?:[+.-][a-z.]+)?)@([0-7])")


class MigPlace(msgspec.Struct, frozen=True, order=True):
    """Where a MIG instance lies on its card: its profile ("1g.10gb") and its first memory slice."""

    profile: str
    start: int


class DeviceName(msgspec.Struct, frozen=True):
    """A device's id, taken apart: its card, the instance that it is, and the number of the replica."""

    card: DeviceId
    place: MigPlace | None = None
    replica: int | None = None

    @property
    def id(self) -> DeviceId:
        """The device's id, put together from its parts."""
        place = "" if self.place is None else f"{SEPARATOR}{self.place.profile}@{self.place.start}"
        replica = "" if self.replica is None else f"{SEPARATOR}{self.replica}"
        return DeviceId(f"{self.card}{place}{replica}")


def hardware_of(device: DeviceId) -> DeviceId:
    """The id of the card or the instance of which a device is a replica; any other device's own id."""
    if SEPARATOR not in device:
        return device
    return msgspec.structs.replace(device_name(device), replica=None).id


def device_name(device: DeviceId) -> DeviceName:
    """What an id says; one that does not follow these rules is that of a whole card."""
    rest, separator, last = device.rpartition(SEPARATOR)
    replica = int(last) if separator and last.isascii() and last.isdecimal() else None
    card = device if replica is None else DeviceId(rest)
    rest, separator, last = card.rpartition(SEPARATOR)
    place = _PLACE.fullmatch(last) if separator else None
    if place is None:
        return DeviceName(card, None, replica)
    return DeviceName(DeviceId(rest), MigPlace(place[1], int(place[2])), replica)
