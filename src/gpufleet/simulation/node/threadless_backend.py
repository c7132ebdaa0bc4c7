"""A simulated machine's library without threads: the agent asks it in virtual time.

A call that hangs is told from the machine itself, and fails when ``ThreadedBackend`` would give it up.
"""

import msgspec

from gpufleet.devices.backend import Event
from gpufleet.devices.device_errors import NoAnswerError
from gpufleet.devices.facts import Fleet
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.machine import Machine
from gpufleet.devices.threaded_backend import CALL_LIMIT_S
from gpufleet.kube.clock import Clock
from gpufleet.model.identifiers import DeviceId

LISTEN_EVERY_S = 0.05
"""Virtual time: an event of a GPU is heard within so much, as one of the driver would be."""


class ThreadlessBackend:
    """Answers as ``ThreadedBackend`` does, but for the threads."""

    def __init__(self, machine: Machine, clock: Clock, listen_every_s: float = LISTEN_EVERY_S) -> None:
        self.machine = machine
        self.listen_every_s = listen_every_s
        self.backend = SimulatedBackend(machine)
        self.clock = clock
        self.opened = 0
        self.listed = 0
        self._resets = {uuid: gpu.resets for uuid, gpu in machine.gpus.items()}
        self._late: dict[DeviceId, str] = {}

    async def open(self) -> None:
        """As ThreadedBackend."""
        self.opened += 1
        self.backend.open()

    async def close(self) -> None:
        """As ThreadedBackend."""
        self.backend.close()

    async def fleet(self) -> Fleet:
        """As ThreadedBackend."""
        self.listed += 1
        return self.backend.fleet()

    async def sample(self, uuid: DeviceId) -> Sample:
        """As ThreadedBackend; drivers count resets since the process began."""
        await self._answering(uuid, "a sample")
        sample = self.backend.sample(uuid)
        # The machine outlives the agents, so what it counted before this one began is taken off.
        return msgspec.structs.replace(sample, resets=sample.resets - self._resets[uuid])

    async def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """As ThreadedBackend."""
        await self._answering(uuid, "a sample of an instance")
        return self.backend.sample_instance(uuid, mig_uuid)

    async def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """As ThreadedBackend."""
        await self._answering(uuid, "the list of processes")
        return self.backend.processes(uuid)

    def leave(self) -> None:
        """As ThreadedBackend; there are no threads."""

    async def wait_event(self, limit_s: float) -> Event | None:
        """As ThreadedBackend."""
        end_s = self.clock.monotonic_s() + limit_s
        while True:
            self.machine.check_driver()
            event = self.machine.next_event(0)
            if event is not None or self.clock.monotonic_s() >= end_s:
                return event
            await self.clock.sleep(self.listen_every_s)

    async def _answering(self, uuid: DeviceId, what: str) -> None:
        """Return where the GPU answers; else NoAnswerError, as a call that hangs raises it."""
        gpu = self.machine.gpus.get(uuid)
        if gpu is None or gpu.going.is_set():
            self._late.pop(uuid, None)
            return
        if uuid in self._late:
            raise NoAnswerError(f"{self._late[uuid]} has not come back yet")
        await self.clock.sleep(CALL_LIMIT_S)
        if not gpu.going.is_set():
            self._late[uuid] = what
            raise NoAnswerError(f"no answer to {what} for {CALL_LIMIT_S:g} s")
