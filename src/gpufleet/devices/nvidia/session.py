"""The library between opening and closing it.

Calls hang, and the thread that closes cannot wait for them; to take the library away under a call would crash
the process. So the last call closes it: ``close`` when no call is under way, else the call that comes back
last. Until then a new session may have begun; the library counts how often it was initialised.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.facts import Fleet
from gpufleet.devices.nvidia.activity import Counters
from gpufleet.devices.nvidia.events import Events
from gpufleet.devices.nvidia.nvml import Handle, Nvml
from gpufleet.devices.nvidia.refusals import NotGivenError
from gpufleet.model.identifiers import DeviceId


class Session:
    """What is kept while the library is open: handles, buffers, the set of events."""

    def __init__(self, nvml: Nvml, clock_s: Callable[[], float]) -> None:
        self.nvml = nvml
        self.events = Events(nvml, clock_s)
        self.over = threading.Event()
        """Set when the library was let go."""
        self._handles: dict[DeviceId, Handle] = {}
        self._counters: dict[str, Counters] = {}
        self._lock = threading.Lock()
        self._under_way = 0
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[None]:
        """A call is under way. Raises DriverError once the session was closed."""
        with self._lock:
            if self._closed:
                raise DriverError("the library is not open")
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                last = self._is_last()
            if last:
                self._let_go()

    def close(self) -> None:
        """No more calls; the library is let go when none is under way."""
        self.events.close()
        with self._lock:
            first = not self._closed
            self._closed = True
            last = first and self._is_last()
        if last:
            self._let_go()

    def listed(self, fleet: Fleet, handles: dict[DeviceId, Handle]) -> None:
        """Take over the GPUs that the driver lists now."""
        self._handles = handles
        self.events.watch(fleet, handles)

    def handle(self, uuid: DeviceId) -> Handle:
        """The GPU of a UUID. Raises GpuLostError where the driver does not find it."""
        known = self._handles.get(uuid)
        if known is not None:
            return known
        try:
            found = self.nvml.by_uuid(uuid)
        except NotGivenError:
            raise GpuLostError("the driver does not find it") from None
        self._handles[uuid] = found
        return found

    def lost(self, uuid: DeviceId) -> None:
        """The GPU did not answer to its handle: find it anew next time."""
        self._handles.pop(uuid, None)

    def counters(self, name: str) -> Counters:
        """The counters of a GPU or an instance, by UUID."""
        return self._counters.setdefault(name, Counters(self.nvml))

    def _is_last(self) -> bool:
        """Whether the session is closed and no call is under way."""
        return self._closed and not self._under_way

    def _let_go(self) -> None:
        for free in (*(one.free for one in self._counters.values()), self.events.free, self.nvml.shut_down):
            # Of a driver that is going away nothing needs to be given back.
            with suppress(DriverError):
                free()
        self.over.set()
