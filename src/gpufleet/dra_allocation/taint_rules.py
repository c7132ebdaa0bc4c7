"""Rules of administrators that taint devices (DeviceTaintRules), beside the taints that drivers write.

A scheduler sees slices with both: the rules are put into the slices before pools are made of them.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpufleet.dra_allocation.slices import Device, DeviceTaint, ResourceSlice


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """A taint for the devices of this driver, pool and name; None stands for any."""

    taint: DeviceTaint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def concerns(self, one: ResourceSlice) -> bool:
        """True if devices of the slice may have the taint."""
        return self.driver in {None, one.driver} and self.pool in {None, one.pool.name}


def with_taint_rules(
    slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule]
) -> tuple[ResourceSlice, ...]:
    """The slices with the taints of the rules at their devices."""
    return tuple(_tainted(one, [rule for rule in rules if rule.concerns(one)]) for one in slices)


def _tainted(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    if not rules:
        return one
    return dataclasses.replace(one, devices=tuple(_device(device, rules) for device in one.devices))


def _device(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    added = tuple(rule.taint for rule in rules if rule.device in {None, device.name})
    return dataclasses.replace(device, taints=(*device.taints, *added)) if added else device
