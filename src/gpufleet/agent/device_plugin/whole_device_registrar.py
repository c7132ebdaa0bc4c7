"""Keeps what the kubelet is offered equal to what the node has: the devices, their health, their CDI files.

Follows the node's GPUs. A device's CDI file is there before the device is offered, since a container that
names a device without one cannot start; a device whose file cannot be written is offered as sick, and the
write is tried again. What the node has no more is withdrawn. The files stay when the agent ends: the
containers that run may have to start again.
"""

import asyncio
import logging
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin.cdi import FOLDER, CdiEdits, CdiSpec, read_spec, remove_spec, write_spec
from gpufleet.agent.device_plugin.delivery import Delivery
from gpufleet.agent.device_plugin.driver_files import Root, driver_edits
from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.static_devices import VENDORS, DeviceFiles, spec_name, static_specs
from gpufleet.agent.device_plugin.whole_device_allocator import AllocatorInputs, WholeDeviceAllocator
from gpufleet.agent.state.disk import DISK, Disk
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.units.node_units import GpuUnit, Unit, Units, by_resource, node_units
from gpufleet.model.gpu_catalogue import Vendor

LOG = logging.getLogger(__name__)
NO_DRIVER_SEEN = (
    "the machine's root is not mounted where the agent looks for NVIDIA's driver (containerDriverRoot, "
    "/driver-root): containers get their devices, but no files of the driver"
)
POLL_EVERY_S = 15.0
"""How often to see whether the files are as they should be: another program may have emptied the folder."""


class Setup(msgspec.Struct, frozen=True):
    """How devices come to containers on this node.

    ``cdi_folder`` is where the container runtime looks for CDI files. ``amd_mixed`` names partitions of AMD's
    GPUs after their kind.
    """

    delivery: Delivery
    cdi_folder: Path = FOLDER
    amd_mixed: bool = False
    disk: Disk = DISK


class WholeDeviceRegistrar:
    """Offers the node's whole devices while ``run`` runs.

    ``problem`` says what keeps it from that; empty while all is as it should be.
    """

    def __init__(self, known: AllocatorInputs, registration: KubeletRegistration, setup: Setup) -> None:
        self._known = known
        self._registration = registration
        self._setup = setup
        self._allocators: dict[str, WholeDeviceAllocator] = {}
        self._named: frozenset[str] = frozenset()
        self._driver: tuple[tuple[str, Root], CdiEdits] = (("", Root()), CdiEdits())
        self._turn = asyncio.Lock()
        self.problem = ""

    @property
    def files(self) -> DeviceFiles:
        """Where devices are found now."""
        return self._setup.delivery.files

    async def run(self) -> None:
        """Follow the GPUs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._look_again())

    async def hand_out(self, delivery: Delivery) -> None:
        """Give devices to containers in this way from now on."""
        self._setup = msgspec.structs.replace(self._setup, delivery=delivery)
        for allocator in self._allocators.values():
            allocator.delivery = delivery
        await self._apply()

    async def follow_now(self) -> None:
        """Have what is given and offered follow from the GPUs as they are told now."""
        await self._apply()

    async def _follow(self) -> None:
        async for _ in self._known.gpus.follow():
            await self._apply()

    async def _look_again(self) -> None:
        while True:
            await self._known.clock.sleep(POLL_EVERY_S)
            await self._apply()

    async def _apply(self) -> None:
        """Make files and offers follow from the GPUs; what is as it should be stays untouched."""
        async with self._turn:
            node = self._known.gpus.value
            if not node.boot_id:
                # The GPUs are not known yet; files of an earlier agent serve the containers that run.
                return
            # The files before the offer: a container must not start with a name that no file explains.
            await asyncio.to_thread(self._write, node)
            units = node_units(node, amd_mixed=self._setup.amd_mixed)
            offered = by_resource(units)
            for resource, its in offered.items():
                named = [self._offered_unit(unit) for unit in its]
                await self._registration.offer(self._allocator(resource, units), named)
            # A list, because allocators are taken out on the way.
            for resource in [name for name in self._allocators if name not in offered]:
                # A call that is under way is answered by it, and must not give what is there no more.
                self._allocators.pop(resource).units = units
                await self._registration.withdraw(resource)

    def _allocator(self, resource: str, units: Units) -> WholeDeviceAllocator:
        found = self._allocators.get(resource)
        if found is None:
            found = WholeDeviceAllocator(resource, self._known, self._setup.delivery, units)
            self._allocators[resource] = found
        found.units = units
        return found

    def _offered_unit(self, unit: GpuUnit) -> Unit:
        """A unit as the kubelet is told of it: one that no container could name is not offered for use."""
        usable = not self._setup.delivery.uses_cdi or unit.device in self._named
        return msgspec.structs.replace(unit.offered, healthy=unit.healthy and usable)

    def _write(self, node: NodeGpus) -> None:
        """Make the files say what there is."""
        setup, named, problems = self._setup, set[str](), []
        wanted = static_specs(node, setup.delivery.files, self.driver_edits(node))
        for vendor in VENDORS:
            name = spec_name(vendor)
            try:
                self._write_one(name, wanted.get(name))
            except OSError as error:
                problems.append(f"{setup.cdi_folder}/{name}: {error}")
            named |= self._there(name, wanted.get(name))
        self._named = frozenset(named)
        files = setup.delivery.files
        if spec_name(Vendor.NVIDIA) in wanted and files.driver is None and not files.simulated:
            problems.append(NO_DRIVER_SEEN)
        problem = "; ".join(problems)
        if problem and problem != self.problem:
            LOG.warning("CDI files are not as they should be", extra={"problem": problem})
        self.problem = problem

    def driver_edits(self, node: NodeGpus) -> CdiEdits:
        """The files of NVIDIA's driver; looked for again until there are some of its version."""
        version = next((one.version for one in node.drivers if one.vendor is Vendor.NVIDIA), "")
        root = self._setup.delivery.files.driver
        if not version or root is None:
            return CdiEdits()
        # A search that found nothing is repeated, because a driver may be installed after the agent began.
        if self._driver[0] != (version, root) or self._driver[1] == CdiEdits():
            self._driver = ((version, root), driver_edits(version, root))
        return self._driver[1]

    def _there(self, name: str, wanted: CdiSpec | None) -> set[str]:
        """The devices that a file describes as it should, also one that could not be written anew."""
        try:
            there = read_spec(self._setup.cdi_folder, name, self._setup.disk)
        except OSError:
            return set()
        if there is None or wanted is None or there.container_edits != wanted.container_edits:
            return set()
        return {device.name for device in there.devices if device in wanted.devices}

    def _write_one(self, name: str, spec: CdiSpec | None) -> None:
        setup = self._setup
        there = read_spec(setup.cdi_folder, name, setup.disk)
        # Not written again where nothing changed: runtimes watch the folder and read it anew at each write.
        if there == spec:
            return
        if spec is None:
            remove_spec(setup.cdi_folder, name, setup.disk)
        else:
            write_spec(setup.cdi_folder, name, spec, setup.disk)
