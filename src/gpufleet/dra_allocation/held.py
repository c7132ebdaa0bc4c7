"""Devices that are taken: by allocations of all claims, those of other schedulers among them.

Administrative access takes nothing. A share takes part of a device's capacity.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpufleet.dra_allocation.results import AllocatedDevice, Allocation
from gpufleet.dra_allocation.slices import DeviceId


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """Devices held whole, and of those held in shares the amounts taken, in nano units by capacity."""

    whole: frozenset[DeviceId] = frozenset()
    shares: Mapping[DeviceId, Mapping[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(allocations: Iterable[Allocation]) -> "HeldDevices":
        """What these allocations take together."""
        whole = set()
        shares: dict[DeviceId, dict[str, int]] = {}
        for allocation in allocations:
            for device in allocation.devices:
                if device.admin_access:
                    continue
                if device.is_share:
                    _add(shares.setdefault(device.id, {}), device)
                else:
                    whole.add(device.id)
        return HeldDevices(frozenset(whole), shares)

    def has(self, device: DeviceId) -> bool:
        """True if any part of the device is held."""
        return device in self.whole or device in self.shares


def _add(sums: dict[str, int], device: AllocatedDevice) -> None:
    for name, amount in device.taken.items():
        sums[name] = sums.get(name, 0) + amount.nano
