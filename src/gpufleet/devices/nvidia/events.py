"""What the driver reports by itself.

Only an Xid says what happened; of all other events the GPU itself tells more, so they are handed on as
"look again". An Xid of a cut GPU names the instance it concerns by numbers, which are looked up in the
last list of GPUs and not on the GPU, since it may answer nothing any more.

The set of events belongs to the thread that waits: GPUs that are listed later are registered by it, and
it waits in slices, so that it sees soon when the library is to be closed.
"""

import threading
from collections.abc import Callable, Mapping

from gpufleet.devices.backend import Changed, Event, XidEvent
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.facts import Fleet
from gpufleet.devices.nvidia.nvml import NO_INSTANCE, EventSet, Handle, Nvml, RawEvent, address
from gpufleet.model.identifiers import DeviceId

SLICE_S = 1.0
"""A wait is cut into slices so that ``close`` ends it within one of them."""

XID = 0x8
"""nvmlEventTypeXidCriticalError of nvml.h."""

OTHERS = {
    0x2: "uncorrected memory error",
    0x100: "instances were made or taken away",
    0x200: "storm of corrected memory errors",
    0x400: "memory retired",
    0x800: "memory could not be retired",
    0x1000: "poisoned data, contained",
    0x2000: "poisoned data, not contained",
    0x4000: "GPU unavailable",
    0x8000: "recovery action changed",
}
"""nvmlEventType* of nvml.h (driver 580). Older drivers know fewer; each GPU says which it reports."""

WANTED = XID | sum(OTHERS)


class Events:
    """The events of all GPUs. ``wait`` is called from one thread, the rest from any.

    ``clock_s`` tells how long a wait has lasted.
    """

    def __init__(self, nvml: Nvml, clock_s: Callable[[], float]) -> None:
        self._nvml = nvml
        self._clock_s = clock_s
        self._closing = threading.Event()
        self._set: EventSet | None = None
        self._listed: tuple[Fleet | None, Mapping[DeviceId, Handle]] = (None, {})
        self._registered: dict[DeviceId, int] = {}
        self._loss_told = False

    def watch(self, fleet: Fleet, handles: Mapping[DeviceId, Handle]) -> None:
        """Take over the GPUs that the driver lists now."""
        self._listed = (fleet, handles)

    def close(self) -> None:
        """End the wait soon."""
        self._closing.set()

    def free(self) -> None:
        """Give the set back; only while no thread waits for its events."""
        events, self._set = self._set, None
        self._registered = {}
        if events is not None:
            self._nvml.event_set_free(events)

    def wait(self, limit_s: float) -> Event | None:
        """The next event; None if there was none within the limit. Raises DriverError."""
        until_s = self._clock_s() + limit_s
        while True:
            left_s = max(0.0, until_s - self._clock_s())
            event = self._wait_slice(min(left_s, SLICE_S))
            if event is not None or left_s == 0 or self._closing.is_set():
                return event

    def _wait_slice(self, limit_s: float) -> Event | None:
        try:
            self._register()
            if self._set is None or not self._registered:
                self._closing.wait(limit_s)
                return None
            raw = self._nvml.wait_event(self._set, int(limit_s * 1000))
        except GpuLostError:
            return self._lost(limit_s)
        except DriverError:
            self.free()
            raise
        self._loss_told = False
        return None if raw is None else self._event(raw)

    def _register(self) -> None:
        """Register GPUs that are new, or listed again after they were not."""
        handles = self._listed[1]
        # A GPU that was not listed is registered anew when it is back: its registration went with it.
        self._registered = {uuid: at for uuid, at in self._registered.items() if uuid in handles}
        for uuid, handle in handles.items():
            if uuid in self._registered:
                continue
            if self._set is None:
                self._set = self._nvml.event_set()
            try:
                kinds = self._nvml.event_kinds(handle) & WANTED
                self._nvml.register(handle, kinds, self._set)
            # What is not registered now is tried again before the next wait.
            except DriverError:
                continue
            self._registered[uuid] = address(handle)

    def _lost(self, limit_s: float) -> Event | None:
        """A GPU was lost, and the library does not say which.

        The wait fails at once from now on, as long as that GPU is in the set; so the set is made anew,
        of those that can be registered. Told once: the second time in a row only time passes.
        """
        self.free()
        if self._loss_told:
            self._closing.wait(limit_s)
            return None
        self._loss_told = True
        return Changed()

    def _event(self, raw: RawEvent) -> Event:
        uuid = next((uuid for uuid, at in self._registered.items() if at == raw.address), None)
        if raw.kind == XID:
            return XidEvent(raw.data, uuid, self._instance(uuid, raw))
        return Changed(uuid)

    def _instance(self, uuid: DeviceId | None, raw: RawEvent) -> str | None:
        fleet = self._listed[0]
        gpu = None if fleet is None or uuid is None else fleet.gpu(uuid)
        if gpu is None or raw.gpu_instance == NO_INSTANCE:
            return None
        numbers = (raw.gpu_instance, raw.compute_instance)
        return next(
            (one.uuid for one in gpu.mig if (one.gpu_instance, one.compute_instance) == numbers), None
        )
