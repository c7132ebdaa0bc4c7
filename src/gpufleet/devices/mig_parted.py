"""Config files of NVIDIA's mig-parted (v1), which MIG Manager reads too: layouts by name, cards by filter.

All of the format is read, and a misspelt field is refused. An entry is for cards of its device filter and
with its numbers; of several that are for a card the last one counts.
"""

import re
from typing import Literal

import msgspec

from gpufleet.devices.documents import read_document
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError

_FILTER = re.compile(r"0x[0-9a-fA-F]{8}")
_PART_OF_INSTANCE = re.compile(r"[0-9]+c\.")

COUNT_MAX = 8
"""No card holds more instances."""


class MigConfigError(InputError):
    """A config file of mig-parted that says something that cannot be."""


class EntryText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What some cards shall be. ``devices`` are all, or numbers of cards."""

    devices: Literal["all"] | tuple[int, ...]
    mig_enabled: bool
    mig_devices: dict[str, int] | None = None
    device_filter: str | tuple[str, ...] = ()


class FileText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A whole config file of mig-parted."""

    version: Literal["v1"]
    mig_configs: dict[str, tuple[EntryText, ...]]


class WantedLayout(msgspec.Struct, frozen=True):
    """What a card shall be: ``counts`` instances of each profile, or out of MIG mode where that is None."""

    counts: dict[str, int] | None


class MigConfigs(msgspec.Struct, frozen=True):
    """The configs of a file by name."""

    where: str
    by_name: dict[str, tuple[EntryText, ...]]

    def named(self, name: str) -> tuple[EntryText, ...]:
        """The config of this name. Raises MigConfigError with those that there are."""
        found = self.by_name.get(name)
        if found is None:
            near = nearest(name, self.by_name)
            expected = f"did you mean {near}" if near else f"one of {', '.join(sorted(self.by_name))}"
            raise MigConfigError(
                "no such config", field="mig-configs", value=name, expected=expected, where=self.where
            )
        return found


def read_mig_configs(text: str | bytes, where: str) -> MigConfigs:
    """The configs of a file. Raises MigConfigError."""
    read = read_document(text, FileText, where, MigConfigError)
    for name, entries in read.mig_configs.items():
        for position, entry in enumerate(entries):
            _check(entry, f"mig-configs.{name}[{position}]", where)
    return MigConfigs(where, read.mig_configs)


def _check(entry: EntryText, field: str, where: str) -> None:
    for one in _filters(entry):
        if _FILTER.fullmatch(one) is None:
            expected = "a PCI device as 0x233010DE"
            raise MigConfigError(
                "no device", field=f"{field}.device-filter", value=one, expected=expected, where=where
            )
    if entry.devices != "all" and any(number < 0 for number in entry.devices):
        raise MigConfigError("a negative number", field=f"{field}.devices", expected="0 or more", where=where)
    if not entry.mig_enabled and entry.mig_devices:
        expected = "none where mig-enabled is false"
        raise MigConfigError(
            "instances without MIG mode", field=f"{field}.mig-devices", expected=expected, where=where
        )
    for profile, count in (entry.mig_devices or {}).items():
        place = f"{field}.mig-devices.{profile}"
        if not 0 <= count <= COUNT_MAX:
            expected = f"0 to {COUNT_MAX}"
            raise MigConfigError("not a count", field=place, value=count, expected=expected, where=where)
        if _PART_OF_INSTANCE.match(profile):
            problem = "compute instances that have a part of their GPU instance are not made"
            raise MigConfigError(problem, field=place, expected="a profile such as 1g.10gb", where=where)


def _filters(entry: EntryText) -> tuple[str, ...]:
    return (entry.device_filter,) if isinstance(entry.device_filter, str) else entry.device_filter


def wanted_layout(
    entries: tuple[EntryText, ...], number: int, pci_devices: frozenset[int]
) -> WantedLayout | None:
    """What a config says of one card; None where it says nothing.

    ``pci_devices`` are the PCI ids that the card may have (0x233010DE), as a report names its model alone.
    """
    found = None
    for one in entries:
        filters = {int(text, 16) for text in _filters(one)}
        if filters and not filters & pci_devices:
            continue
        if one.devices == "all" or number in one.devices:
            found = WantedLayout((one.mig_devices or {}) if one.mig_enabled else None)
    return found
