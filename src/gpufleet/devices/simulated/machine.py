"""The simulated machine's state: the users of its GPUs, the power they draw, and what is broken.

Everything is a function of the description, the commands that were given and the time; there is no chance in
it. Faults are raised while it runs by the methods named after them, from any thread. ``backend`` answers from
here.
"""

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from gpufleet.devices.backend import Changed, Event, XidEvent
from gpufleet.devices.device_errors import DriverError, GpuLostError, MachineError
from gpufleet.devices.facts import Engines, MigFacts
from gpufleet.devices.health import Recovery
from gpufleet.devices.simulated.description import Description, Group
from gpufleet.devices.simulated.set_readings import SetReadings
from gpufleet.devices.xid import XidAction, xid
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance
from gpufleet.model.mig_boards import BOARDS

NAMES = uuid.UUID("0d4c2f6a-53c6-5d7a-8c0e-3a5b7a1e9f24")
"""Under which ids are made: the same machine always has the same GPUs."""

CAPABILITIES_OF_GPU, CAPABILITIES_OF_INSTANCE = 135, 9
"""By how much the numbers of capabilities grow from one GPU, and one GPU instance, to the next."""

FIRST_CAPABILITY = 3
"""The number of the first GPU instance's; those before it are of the driver itself."""

IDLE_SHARE = 0.1
"""The part of its power limit that a GPU draws without work."""


class User(msgspec.Struct, frozen=True):
    """A process on a GPU: how much of it is kept busy, and how much memory it holds."""

    pid: int
    uuid: DeviceId
    busy_pct: int = 0
    memory_mib: int = 0
    mig_uuid: str | None = None


Users = Callable[[], Iterable[User]]


class Gpu:
    """One GPU of the machine: number ``number`` of its group, ``index`` of all."""

    def __init__(self, group: Group, number: int, index: int, made_id: str, at_s: float) -> None:
        self.group = group
        self.index = index
        self.numa_node = group.numa_nodes[number]
        self.uuid = group.uuids[number] if group.uuids else DeviceId(made_id)
        self.instances: tuple[MigFacts, ...] | None = None
        # GPU instances without compute instance, by number: no program can use them.
        self.bare_instances: dict[int, MigInstance] = {}
        # The MIG mode from the next reset on; None where it stays.
        self.pending_mode: bool | None = None
        self.generation = 0
        self.lost = False
        self.recovery = Recovery.NONE
        self.remap_failed = False
        self.resets = 0
        self.energy_mj = 0.0
        self.drawn_until_s = at_s
        self.set_readings = SetReadings(at_s)
        # Set while the GPU answers; calls wait for it.
        self.going = threading.Event()
        self.going.set()
        if group.layout is not None:
            self.cut(group.layout)

    def cut(self, layout: Iterable[MigInstance]) -> None:
        """Make these instances; each gets an id that no instance had before."""
        self.generation += 1
        self.instances = tuple(self.made_instance(one, number + 1) for number, one in enumerate(layout))

    def made_instance(self, place: MigInstance, gpu_instance: int) -> MigFacts:
        """An instance of this generation at a place, with a compute instance that has all of it."""
        board = BOARDS[self.group.model.name]
        profile = board.profile(place.profile)
        name = f"{self.uuid}/{self.generation}/{place.profile}/{place.start}"
        # For a profile whose memory the board does not state.
        eighths = self.group.memory_mib * profile.memory_slices // board.memory_slices
        return MigFacts(
            f"MIG-{uuid.uuid5(NAMES, name)}",
            place.profile,
            place.start,
            gpu_instance,
            0,
            profile.memory_mib or eighths,
            profile.multiprocessors,
            device_nodes=self._capabilities(gpu_instance),
            engines=Engines(copy=profile.copy_engines, decoders=profile.decoders),
        )

    def _capabilities(self, gpu_instance: int) -> tuple[str, ...]:
        """The device nodes that open a GPU instance and its first compute instance."""
        of_gpu = FIRST_CAPABILITY + CAPABILITIES_OF_GPU * self.index
        number = of_gpu + CAPABILITIES_OF_INSTANCE * gpu_instance
        return tuple(f"/dev/nvidia-caps/nvidia-cap{one}" for one in (number, number + 1))

    def power_w(self, busy_pct: int) -> float:
        """The power that the GPU draws at this load."""
        limit_w = self.group.text.power_limit_w
        return limit_w * (IDLE_SHARE + (1 - IDLE_SHARE) * min(100, busy_pct) / 100)


class Machine:
    """All GPUs, and what has been done to them."""

    def __init__(
        self, description: Description, clock_s: Callable[[], float], users: Users, name: str = "machine"
    ) -> None:
        self.description = description
        self.clock_s = clock_s
        self.users = users
        self.driver_version = description.driver_version
        self.driver_problem = ""
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self.gpus: dict[DeviceId, Gpu] = {}
        for group in description.groups:
            for number in range(group.text.count):
                index = len(self.gpus)
                made_id = f"GPU-{uuid.uuid5(NAMES, f'{name}/{index}')}"
                gpu = Gpu(group, number, index, made_id, clock_s())
                self.gpus[gpu.uuid] = gpu

    def find(self, named: str) -> Gpu:
        """A GPU by its UUID or its index. Raises MachineError with what there is."""
        for gpu in self.gpus.values():
            if named in (gpu.uuid, str(gpu.index)):
                return gpu
        expected = f"an index from 0 to {len(self.gpus) - 1} or a UUID"
        raise MachineError("no such GPU", field="gpu", value=named, expected=expected)

    def raise_xid(self, named: str, code: int, mig_uuid: str | None = None) -> None:
        """The driver reports an error; what follows from it for the GPU follows.

        An error of one MIG instance leaves the GPU as it is, unless the GPU is gone by it.
        """
        gpu = self.find(named)
        if xid(code).action is XidAction.RESET and mig_uuid is None:
            gpu.recovery = Recovery.RESET
        if xid(code).action is XidAction.GONE:
            gpu.lost = True
        self._happened(XidEvent(code, gpu.uuid, mig_uuid))

    def lose(self, named: str) -> None:
        """Let a GPU fall off the bus."""
        # 79: the GPU has fallen off the bus.
        self.raise_xid(named, 79)

    def hang(self, named: str) -> None:
        """Every call about it hangs until ``release``."""
        self.find(named).going.clear()

    def release(self, named: str) -> None:
        """Calls about it come back."""
        self.find(named).going.set()

    def fail_remap(self, named: str) -> None:
        """A broken row of its memory cannot be remapped."""
        self.find(named).remap_failed = True
        # 64: the record of a remapped row could not be written.
        self.raise_xid(named, 64)

    def set_reading(self, named: str, reading: str, value: int) -> None:
        """A GPU tells this value from now on. Raises MachineError for what cannot be."""
        self.find(named).set_readings.set(reading, value, self.clock_s())

    def reset(self, named: str) -> None:
        """Reset a GPU, or find it again after a restart: it is well again, and its instances are gone."""
        gpu = self.find(named)
        gpu.lost, gpu.remap_failed, gpu.recovery = False, False, Recovery.NONE
        gpu.resets += 1
        gpu.set_readings.reset(self.clock_s())
        # None stays: a GPU with MIG off is not cut by a reset.
        if gpu.instances:
            gpu.instances = ()
        gpu.bare_instances = {}
        if gpu.pending_mode is not None:
            gpu.instances = () if gpu.pending_mode else None
            gpu.pending_mode = None
        gpu.going.set()
        self._happened(Changed(gpu.uuid))

    def tell_changed(self, gpu: Gpu) -> None:
        """Report that something about a GPU is not as it was."""
        self._happened(Changed(gpu.uuid))

    def break_driver(self, problem: str) -> None:
        """The library cannot be used: "Driver/library version mismatch", say."""
        self.driver_problem = problem
        self._happened(Changed())

    def mend_driver(self) -> None:
        """The library can be used again."""
        self.driver_problem = ""
        self._happened(Changed())

    def update_driver(self, version: str) -> None:
        """Another version of the driver is loaded, and its library can be used."""
        self.driver_version = version
        self.mend_driver()

    def there(self, wanted: DeviceId) -> Gpu:
        """A GPU that answers; waits while it hangs. Raises GpuLostError or DriverError."""
        self.check_driver()
        gpu = self.gpus.get(wanted)
        if gpu is None:
            raise GpuLostError(f"the driver does not know {wanted}")
        gpu.going.wait()
        # After the wait, since it may be lost while it hangs.
        if gpu.lost:
            raise GpuLostError(f"{wanted} is lost")
        return gpu

    def check_driver(self) -> None:
        """Raises DriverError where the library cannot be used."""
        if self.driver_problem:
            raise DriverError(self.driver_problem)

    def on(self, gpu: Gpu) -> list[User]:
        """The users of a GPU now."""
        return [user for user in self.users() if user.uuid == gpu.uuid]

    def next_event(self, limit_s: float, closed: Callable[[], bool] = lambda: False) -> Event | None:
        """Take the oldest event; None if there is none within the limit.

        A backend that is ``closed`` takes none; ``wake`` wakes a waiting one so that it asks ``closed``
        again.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._events) or closed(), limit_s)
            return self._events.popleft() if self._events and not closed() else None

    def wake(self) -> None:
        """Wake the threads that wait for events."""
        with self._changed:
            self._changed.notify_all()

    def _happened(self, event: Event) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()
