"""NVIDIA's library behind the interface of all vendors."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gpufleet.devices.backend import Event
from gpufleet.devices.device_errors import DriverError, GpuLostError
from gpufleet.devices.facts import Fleet
from gpufleet.devices.health import Recovery
from gpufleet.devices.nvidia import inventory, processes, readings
from gpufleet.devices.nvidia.instances import instances
from gpufleet.devices.nvidia.nvml import Nvml
from gpufleet.devices.nvidia.refusals import Answers, ResetNeededError, VersionMismatchError
from gpufleet.devices.nvidia.resets import Resets
from gpufleet.devices.nvidia.session import Session
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.files.regular import read_kernel_file
from gpufleet.model.identifiers import DeviceId

# The kernel module tells its version here, also where the library does not answer.
MODULE = "proc/driver/nvidia/version"
MODULE_VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)")


class NvidiaBackend:
    """The GPUs of NVIDIA's driver; ``root`` is the folder below which sys and proc are mounted.

    ``clock_s`` counts on steadily, for samples and waits. ``wall_s`` is the time since the epoch, by which
    the driver stamps what it remembers of processes.
    """

    def __init__(
        self,
        root: Path,
        *,
        clock_s: Callable[[], float],
        wall_s: Callable[[], float],
    ) -> None:
        self._root = root
        self._clock_s = clock_s
        self._wall_s = wall_s
        self._session: Session | None = None
        self._old: list[Session] = []
        self._resets = Resets()

    def open(self) -> None:
        """Initialise NVML; a library that did not fit is loaded anew next time. Raises DriverError."""
        if self._session is not None:
            return
        nvml = Nvml()
        try:
            nvml.initialise()
        except DriverError as error:
            problem = self._with_versions(nvml, error)
            self._old = [session for session in self._old if not session.over.is_set()]
            # The library may be unloaded only when no thread is inside of it any more.
            if not self._old:
                nvml.forget()
            raise problem from None
        self._session = Session(nvml, self._clock_s)

    def close(self) -> None:
        """End the session; NVML is shut down when the last call under way has come back."""
        # Taken away first, so that no new call begins in a session that ends.
        session, self._session = self._session, None
        if session is not None:
            self._old.append(session)
            session.close()

    def fleet(self) -> Fleet:
        """The GPUs that NVML lists now, without those that are lost. Raises DriverError."""
        with self._using() as session:
            found, handles = inventory.fleet(session.nvml, self._root)
            session.listed(found, handles)
            self._resets.listed(set(handles))
            return found

    def sample(self, uuid: DeviceId) -> Sample:
        """Readings of a GPU now. A GPU that answers nothing before a reset gives a sample that says so."""
        with self._about(uuid) as session:
            at_s, counters = self._clock_s(), session.counters(uuid)
            try:
                found, refuses = readings.sample(session.nvml, session.handle(uuid), counters, at_s)
            except ResetNeededError:
                # A sample and no error: the health of the GPU needs its word that it wants a reset.
                found, refuses = Sample(at_s, recovery=Recovery.RESET), True
        if refuses:
            self._resets.missing(uuid)
            resets = self._resets.count(uuid)
        else:
            resets = self._resets.answered(uuid, found.energy_mj, found.uncorrected_errors)
        return msgspec.structs.replace(found, resets=resets)

    def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """Readings of a MIG instance now. Raises GpuLostError where the GPU has no such instance."""
        with self._about(uuid) as session:
            gpu = session.handle(uuid)
            those = {one.uuid: one for one in instances(session.nvml, gpu, Answers())}
            one = those.get(mig_uuid)
            if one is not None:
                counters = session.counters(mig_uuid)
                found = readings.sample_instance(session.nvml, gpu, one, counters, self._clock_s())
                return msgspec.structs.replace(found, resets=self._resets.count(uuid))
        raise GpuLostError(f"{uuid} has no instance {mig_uuid}")

    def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """The processes on a GPU now, from NVML."""
        with self._about(uuid) as session:
            return processes.processes(session.nvml, session.handle(uuid), self._wall_s)

    def wait_event(self, limit_s: float) -> Event | None:
        """The next event within the limit; GPUs that ``fleet`` has not listed report nothing."""
        with self._using() as session:
            return session.events.wait(limit_s)

    @contextmanager
    def _using(self) -> Iterator[Session]:
        session = self._session
        if session is None:
            raise DriverError("the library is not open")
        with session.use():
            yield session

    @contextmanager
    def _about(self, uuid: DeviceId) -> Iterator[Session]:
        """A call about one GPU; remembers when the GPU is lost."""
        with self._using() as session:
            try:
                yield session
            except GpuLostError as error:
                session.lost(uuid)
                self._resets.missing(uuid)
                raise GpuLostError(f"{uuid}: {error}") from None

    def _with_versions(self, nvml: Nvml, error: DriverError) -> DriverError:
        """Which version is where, as far as it can be told."""
        if not isinstance(error, VersionMismatchError):
            return error
        try:
            text = read_kernel_file(self._root / MODULE).decode("ascii", "replace")
        except OSError:
            text = ""
        module = MODULE_VERSION.search(text)
        library = Answers().ask(nvml.version)
        return DriverError(
            f"{error}; the kernel's module is {module[1] if module else 'unknown'},"
            f" the library is {library or 'unknown'}"
        )
