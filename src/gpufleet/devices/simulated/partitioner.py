"""The calls for MIG of a simulated machine, refused where NVIDIA's driver refuses them."""

from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.simulated.machine import Gpu, Machine
from gpufleet.mig.card_state import CardState, GpuInstance
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError

ARCHITECTURE_WITH_RESET = "Ampere"
"""On these cards a mode is pending until the card is reset."""


class SimulatedPartitioner:
    """Cuts the cards of a machine that exists only in a file."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def card_state(self, uuid: DeviceId) -> CardState:
        """The card as it is. Raises GpuLostError or DriverError."""
        gpu = self.machine.there(uuid)
        users = self.machine.on(gpu)
        busy = {user.mig_uuid for user in users}
        found = [
            GpuInstance(one.gpu_instance, _place(one), (one.compute_instance,), one.uuid in busy)
            for one in gpu.instances or ()
        ]
        found += [GpuInstance(number, place) for number, place in gpu.bare_instances.items()]
        enabled = gpu.instances is not None
        pending = enabled if gpu.pending_mode is None else gpu.pending_mode
        return CardState(enabled, pending, tuple(sorted(found, key=lambda one: one.place)), None in busy)

    def set_mode(self, uuid: DeviceId, *, enabled: bool) -> None:
        """Set the MIG mode. Raises DriverError on a card in use, or off while there are instances."""
        gpu = self._cuttable(uuid)
        if gpu.instances or gpu.bare_instances:
            raise DriverError("In use by another client: the card has GPU instances")
        if gpu.group.model.architecture == ARCHITECTURE_WITH_RESET:
            gpu.pending_mode = enabled
            return
        self._check_idle(gpu)
        gpu.instances = () if enabled else None
        self.machine.tell_changed(gpu)

    def reset(self, uuid: DeviceId) -> None:
        """Reset the card; a pending mode holds then. Raises DriverError on a card in use."""
        gpu = self.machine.there(uuid)
        self._check_idle(gpu)
        self.machine.reset(gpu.uuid)

    def make_gpu_instance(self, uuid: DeviceId, place: MigInstance) -> None:
        """Make a GPU instance. Raises DriverError where its slices are taken, or out of MIG mode."""
        gpu = self._cuttable(uuid)
        if gpu.instances is None:
            raise DriverError("Not Supported: the card is not in MIG mode")
        there = [*map(_place, gpu.instances), *gpu.bare_instances.values()]
        try:
            BOARDS[gpu.group.model.name].taken([*there, place])
        except InputError as error:
            raise DriverError(f"Insufficient Resources: {error}") from error
        used = {one.gpu_instance for one in gpu.instances} | gpu.bare_instances.keys()
        number = next(one for one in range(1, len(used) + 2) if one not in used)
        gpu.bare_instances[number] = place

    def make_compute_instance(self, uuid: DeviceId, gpu_instance: int) -> None:
        """Make a compute instance; a program can use the instance then. Raises DriverError."""
        gpu = self._cuttable(uuid)
        place = gpu.bare_instances.pop(gpu_instance, None)
        if place is None:
            raise DriverError(f"Not Found: no GPU instance {gpu_instance} without compute instance")
        # An instance that is made again at the same place has another UUID, so programs lose the old one.
        gpu.generation += 1
        made = gpu.made_instance(place, gpu_instance)
        gpu.instances = tuple(sorted((*(gpu.instances or ()), made), key=lambda one: one.gpu_instance))
        self.machine.tell_changed(gpu)

    def remove_compute_instance(self, uuid: DeviceId, gpu_instance: int, number: int) -> None:
        """Remove a compute instance. Raises DriverError where a process uses it."""
        gpu = self._cuttable(uuid)
        for one in gpu.instances or ():
            if (one.gpu_instance, one.compute_instance) == (gpu_instance, number):
                if any(user.mig_uuid == one.uuid for user in self.machine.on(gpu)):
                    raise DriverError(f"In use by another client: {one.uuid}")
                gpu.instances = tuple(other for other in gpu.instances or () if other is not one)
                gpu.bare_instances[gpu_instance] = _place(one)
                self.machine.tell_changed(gpu)

    def remove_gpu_instance(self, uuid: DeviceId, number: int) -> None:
        """Remove a GPU instance. Raises DriverError where it has a compute instance."""
        gpu = self._cuttable(uuid)
        if any(one.gpu_instance == number for one in gpu.instances or ()):
            raise DriverError(f"In use by another client: GPU instance {number} has a compute instance")
        gpu.bare_instances.pop(number, None)

    def _cuttable(self, uuid: DeviceId) -> Gpu:
        gpu = self.machine.there(uuid)
        if gpu.group.model.name not in BOARDS:
            raise DriverError("Not Supported: the card cannot be cut")
        return gpu

    def _check_idle(self, gpu: Gpu) -> None:
        if self.machine.on(gpu):
            raise DriverError("In use by another client: the card has processes")


def _place(one: MigFacts) -> MigInstance:
    # A simulated instance always has a place; real drivers may not tell it.
    return MigInstance(0 if one.start is None else one.start, one.profile)
