"""A device as claims get it: how its slice describes it, and which card or part of a card it is.

Each vendor has a module with the names of its own driver. A value that the machine does not tell is left out:
a claim that needs it is then refused, where a guess would be believed.
"""

import re
from collections.abc import Mapping

import msgspec

from gpufleet.kube.objects.resource_slices import WrittenAttribute, WrittenCapacity, WrittenDevice
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance

PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
"""Kubernetes' attribute for the place of a device on the PCI bus, written 0000:19:00.0."""

TEXT_LONGEST = 64
"""What the API server takes as the value of an attribute."""

_BINARY_SUFFIXES = ("Mi", "Gi", "Ti")
# Domain, bus, device and function in hexadecimal; drivers write the domain with four or eight digits.
_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")

Attributes = dict[str, WrittenAttribute]
Capacities = dict[str, WrittenCapacity]


class MadeDevice(msgspec.Struct, frozen=True):
    """What a card is cut for once a claim has the device: an instance at its place, or the whole card.

    ``slices`` are the memory slices that it takes, as bits.
    """

    place: MigInstance | None
    slices: int


class OfferedDevice(msgspec.Struct, frozen=True):
    """A device of a slice. ``instance`` is the UUID of the part that it is of its card; else it is empty.

    ``made`` is set where the device is made when a claim that has it is prepared.
    """

    gpu: DeviceId
    written: WrittenDevice
    instance: str = ""
    made: MadeDevice | None = None

    @property
    def name(self) -> str:
        """The device's name in its pool."""
        return self.written.name


def attributes(
    texts: Mapping[str, str | None],
    versions: Mapping[str, str | None] | None = None,
    numbers: Mapping[str, int | None] | None = None,
) -> Attributes:
    """The attributes that are known, by name and kind of value."""
    found = {name: WrittenAttribute(string=text[:TEXT_LONGEST]) for name, text in texts.items() if text}
    for name, text in (versions or {}).items():
        version = semantic_version(text)
        if version:
            found[name] = WrittenAttribute(version=version)
    known = {name: number for name, number in (numbers or {}).items() if number is not None}
    return found | {name: WrittenAttribute(int_value=number) for name, number in known.items()}


def capacities(counts: Mapping[str, int | None], memory_mib: int | None) -> Capacities:
    """The capacities that are known; memory as the server writes it, so that it reads equal again."""
    found = {name: WrittenCapacity(str(count)) for name, count in counts.items() if count is not None}
    if memory_mib is not None:
        found["memory"] = WrittenCapacity(binary_quantity(memory_mib))
    return found


def binary_quantity(mib: int) -> str:
    """Memory in the largest unit of which it is a whole number."""
    place = 0
    while mib and mib % 1024 == 0 and place < len(_BINARY_SUFFIXES) - 1:
        mib, place = mib // 1024, place + 1
    return f"{mib}{_BINARY_SUFFIXES[place]}" if mib else "0"


def semantic_version(text: str | None) -> str:
    """Up to three numbers as a semantic version ("580.95.05" is 580.95.5); empty for any other text."""
    parts = (text or "").split(".")
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return ""
    numbers = [*map(int, parts), 0, 0][:3]
    return ".".join(map(str, numbers))


def bus_id(text: str | None) -> str:
    """A place on the PCI bus with four digits of domain, as Kubernetes has it; empty for what is none."""
    found = _PCI.fullmatch((text or "").lower())
    return "" if found is None else f"{int(found[1], 16):04x}:{found[2]}"
