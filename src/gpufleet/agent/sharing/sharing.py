"""Everything about sharing on one node, put together: the configuration, MPS, and the watch over memory.

``assembly`` takes from it the planner for the monitor, the way in which devices are handed out, and the
parts to run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin.delivery import BY_CDI, Delivery, no_addition
from gpufleet.agent.device_plugin.static_devices import DeviceFiles
from gpufleet.agent.device_plugin.whole_device_registrar import WholeDeviceRegistrar
from gpufleet.agent.events.node_events import NodeEvents
from gpufleet.agent.kubelet.process_owners import owner_of
from gpufleet.agent.sharing.memory_monitor import MemoryMonitor, Offenders
from gpufleet.agent.sharing.mps import OPTIONS as MPS_OPTIONS
from gpufleet.agent.sharing.mps import MpsDaemons, MpsOptions, mps_clients
from gpufleet.agent.sharing.nvidia_config_maps import (
    SEARCH_EVERY_S,
    NvidiaConfigMaps,
    Place,
    no_other_plugin,
)
from gpufleet.agent.sharing.plan_record import PlanRecord
from gpufleet.agent.sharing.programs import MachinePrograms, SimulatedPrograms
from gpufleet.agent.sharing.sharing_source import OPTIONS, SharingOptions, SharingSource
from gpufleet.agent.sharing.sharing_texts import ConfigMapTexts, FileTexts, OwnLabels
from gpufleet.agent.state.disk import DISK, Disk
from gpufleet.agent.state.node_state import Holders, NodeGpus, NodePods, Readings
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.client import Client


class SharingSetup(msgspec.Struct, frozen=True):
    """Where the configuration lies, how it is read, where plans are kept, and where MPS is.

    ``strategies`` are the ways in which containers get devices; None where the configuration says.
    ``config`` is a file or a folder, ``config_map`` the namespace and name of a ConfigMap in its place. With
    neither, those of ``nvidia_config_maps`` count that exist, unless ``other_plugins`` names the socket of a
    device plugin that they are for; each is looked for every ``search_every_s``. Without any of these none
    is declared. ``simulated`` puts a stand-in in place of NVIDIA's programs.
    """

    config: Path | None
    state_folder: Path
    config_map: Place | None = None
    nvidia_config_maps: tuple[Place, ...] = ()
    search_every_s: float = SEARCH_EVERY_S
    other_plugins: Callable[[], tuple[str, ...]] = no_other_plugin
    options: SharingOptions = OPTIONS
    mps: MpsOptions = MPS_OPTIONS
    simulated: bool = False
    strategies: tuple[str, ...] | None = None
    disk: Disk = DISK


class Sharing:
    """The parts of sharing on one node. ``source.planner`` is the monitor's."""

    def __init__(
        self,
        client: Client,
        node: str,
        setup: SharingSetup,
        pods: Topic[NodePods],
        holders: Topic[Holders],
        holders_known: Callable[[], bool],
    ) -> None:
        self.setup = setup
        self.client = client
        self.pods = pods
        self._texts = texts_of(setup, client)
        self._labels, self._events = OwnLabels(client, node), NodeEvents(client, node)
        self.source = SharingSource(
            None if self._texts is None else self._texts.topic,
            self._labels.topic,
            pods,
            holders,
            PlanRecord(setup.state_folder, setup.disk),
            self._events,
            options=setup.options,
            holders_known=holders_known,
        )
        self.offenders: Topic[Offenders] = Topic({})
        self.mps: MpsDaemons | None = None

    async def then(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do some work once it is known how GPUs are shared: nothing is offered in another way before."""
        await self.source.wait_loaded()
        await work()

    async def run(self) -> None:
        """Follow the configuration until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._texts is not None:
                group.create_task(self._texts.run())
                group.create_task(self._labels.run())
            group.create_task(self._events.run())
            group.create_task(self.source.run())

    def daemons(self, gpus: Topic[NodeGpus]) -> MpsDaemons:
        """The MPS daemons of these GPUs, to be run."""
        programs = SimulatedPrograms() if self.setup.simulated else MachinePrograms()
        mps = MpsDaemons(gpus, self.source.delivery, programs, self.client.clock, self.setup.mps)
        self.mps = mps
        return mps

    def delivery(self, files: DeviceFiles) -> Delivery:
        """How devices are handed out now."""
        options = self.source.delivery.value or BY_CDI
        if self.setup.strategies is not None:
            options = msgspec.structs.replace(options, list_strategies=self.setup.strategies)
        addition = no_addition if self.mps is None else mps_clients(self.mps)
        return Delivery(files.under(options), options, addition)

    async def follow_delivery(self, registrar: WholeDeviceRegistrar, files: DeviceFiles) -> None:
        """Have the registrar hand devices out as the configuration wants it, until cancelled."""
        async for _ in self.source.delivery.follow():
            await registrar.hand_out(self.delivery(files))

    def memory(self, readings: Topic[Readings]) -> MemoryMonitor:
        """Finds pods that use more memory than their share; needs accounting, and the machine's own /proc."""
        return MemoryMonitor(readings, self.pods, owner_of, self.offenders)


def texts_of(setup: SharingSetup, client: Client) -> FileTexts | ConfigMapTexts | NvidiaConfigMaps | None:
    """Where the configuration lies; None where none is declared."""
    if setup.config is not None:
        return FileTexts(setup.config, client.clock)
    if setup.config_map is not None:
        return ConfigMapTexts(client, *setup.config_map)
    places = setup.nvidia_config_maps
    if not places:
        return None
    return NvidiaConfigMaps(client, places, setup.other_plugins, setup.search_every_s)
