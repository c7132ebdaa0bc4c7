"""The series of each device joined: which pod held it at which instants, and what was used then.

Two exporters on one node, or two replicas of one Prometheus, tell of a device twice; the higher value counts.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from gpufleet.usage.prometheus.answer import Series
from gpufleet.usage.prometheus.labels import Device, NoPod, PodName, Target, device_of, holder_of

# Exporters give use in percent; here it is counted in thousandths.
PERCENT_MAX = 100
MEMORY_MIB_MAX = 2**24
"""16 TiB: above it stand the values by which DCGM says that it knows none."""
MILLI_OF_PERCENT = 10


class Track(msgspec.Struct):
    """What one holder of a device used, by instant: thousandths of the device, and its memory in MiB."""

    use_milli: dict[int, int] = {}
    memory_mib: dict[int, int] = {}

    @property
    def instants(self) -> set[int]:
        """When it held the device."""
        return self.use_milli.keys() | self.memory_mib.keys()


class DeviceTracks(msgspec.Struct):
    """A device and its holders; the holder ``NoPod`` stands for the time in which it was idle."""

    device: Device
    holders: dict[PodName | NoPod, Track] = {}


class Tracks:
    """All devices, filled from the answers of a server, part by part."""

    def __init__(
        self, step_s: int, targets: Mapping[Target, Collection[PodName]], asking: Collection[PodName]
    ) -> None:
        self.devices: dict[tuple[str, str], DeviceTracks] = {}
        self.impossible_count = 0
        """Values that no device can have."""
        self._step_s = step_s
        self._targets = targets
        self._asking = asking

    def add_use(self, series: Iterable[Series]) -> None:
        """Utilisation in percent; a fraction of a thousandth counts as a whole one."""
        for one, track in self._tracks(series):
            self._add(one, track.use_milli, PERCENT_MAX, MILLI_OF_PERCENT)

    def add_memory(self, series: Iterable[Series]) -> None:
        """Memory that is used, in MiB."""
        for one, track in self._tracks(series):
            self._add(one, track.memory_mib, MEMORY_MIB_MAX, 1)

    def _tracks(self, series: Iterable[Series]) -> Iterable[tuple[Series, Track]]:
        for one in series:
            device = device_of(one.labels)
            if device is not None:
                key = (device.uuid, device.instance)
                found = self.devices.setdefault(key, DeviceTracks(device))
                holder = holder_of(one.labels, self._targets, self._asking)
                yield one, found.holders.setdefault(holder, Track())

    def _add(self, series: Series, into: dict[int, int], highest: int, factor: int) -> None:
        for at_s, value in zip(series.times_s, series.values, strict=True):
            if not 0 <= value <= highest:
                self.impossible_count += 1
                continue
            instant = at_s // self._step_s
            into[instant] = max(into.get(instant, 0), -int(-value * factor // 1))
