"""What happened to each GPU within the last minutes: Xids, and reasons for lower clocks, counted.

dcgm-exporter counts both over a window that ends now, and over its whole life. Xids come counted since
the agent began (``node_state.Gpu.xids``), so what is new since the last look happened then. Reasons for lower
clocks stand in each sample: within the window each sample counts that shows one, over the whole life each
time that one begins. One that held already at the first sample is no beginning.
"""

from collections import Counter, deque
from collections.abc import Collection, Mapping

import msgspec

from gpufleet.devices.clock_events import ClockEvent
from gpufleet.devices.sample import Sample
from gpufleet.model.identifiers import DeviceId

WINDOW_S = 300.0
"""dcgm-exporter's default."""


class GpuEvents(msgspec.Struct, frozen=True):
    """Counts of one GPU. Those of clocks are None where the GPU has not told any in that time."""

    recent_xids: dict[int, int] = {}
    recent_clock_events: dict[ClockEvent, int] | None = None
    clock_events_begun: dict[ClockEvent, int] | None = None


NO_EVENTS = GpuEvents()


class _GpuRecord:
    """What is remembered of one GPU, oldest first."""

    def __init__(self) -> None:
        self.xids: deque[tuple[float, int, int]] = deque()
        self.xids_told: Mapping[int, int] = {}
        self.clocks: deque[tuple[float, ClockEvent]] = deque()
        self.clocks_now: ClockEvent | None = None
        self.read_at_s = float("-inf")
        self.begun: Counter[ClockEvent] = Counter()


class EventCounters:
    """The events of all GPUs."""

    def __init__(self) -> None:
        self._gpus: dict[DeviceId, _GpuRecord] = {}

    def book(self, gpu: DeviceId, xids: Mapping[int, int], sample: Sample | None, now_s: float) -> GpuEvents:
        """Note what is new of a GPU, and tell what its window holds now."""
        kept = self._gpus.setdefault(gpu, _GpuRecord())
        for code, count in xids.items():
            more = count - kept.xids_told.get(code, 0)
            if more > 0:
                kept.xids.append((now_s, code, more))
        kept.xids_told = xids
        if sample is not None and sample.clock_events is not None and sample.at_s > kept.read_at_s:
            _note_clocks(kept, sample.at_s, sample.clock_events)
        _forget(kept.xids, now_s)
        _forget(kept.clocks, now_s)
        return _events_of(kept)

    def forget_gpus(self, left: Collection[DeviceId]) -> None:
        """Forget the GPUs that are no longer there."""
        self._gpus = {gpu: kept for gpu, kept in self._gpus.items() if gpu in left}

    def stale_at_s(self) -> float | None:
        """When the next event leaves its window; None where there is none."""
        firsts = [
            events[0][0] for kept in self._gpus.values() for events in (kept.xids, kept.clocks) if events
        ]
        return min(firsts) + WINDOW_S if firsts else None


def _note_clocks(kept: _GpuRecord, at_s: float, events: ClockEvent) -> None:
    kept.clocks.append((at_s, events))
    if kept.clocks_now is not None:
        kept.begun.update(events & ~kept.clocks_now)
    kept.clocks_now, kept.read_at_s = events, at_s


def _forget(events: deque[tuple[float, ClockEvent]] | deque[tuple[float, int, int]], now_s: float) -> None:
    while events and events[0][0] <= now_s - WINDOW_S:
        events.popleft()


def _events_of(kept: _GpuRecord) -> GpuEvents:
    xids: Counter[int] = Counter()
    for _, code, count in kept.xids:
        xids[code] += count
    recent = Counter(event for _, events in kept.clocks for event in events)
    return GpuEvents(
        dict(xids),
        dict(recent) if kept.clocks else None,
        None if kept.clocks_now is None else dict(kept.begun),
    )
