"""Everything about sharing on one node, put together: the configuration, MPS, and the watch over memory.

``assembly`` takes from it the planner for the watchman, the way in which devices are handed out, and the
parts to run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from gpufleet.agent.known import Holders, NodeGpus, NodePods, Readings
from gpufleet.agent.kubelet.process_owners import owner_of
from gpufleet.agent.parts import Part
from gpufleet.agent.plugin.delivery import BY_CDI, Delivery, nothing_else
from gpufleet.agent.plugin.keeper import Keeper
from gpufleet.agent.plugin.static_devices import DeviceFiles
from gpufleet.agent.reports.node_events import NodeEvents
from gpufleet.agent.sharing.memory_watch import MemoryWatch, Offenders
from gpufleet.agent.sharing.mps import OPTIONS as MPS_OPTIONS
from gpufleet.agent.sharing.mps import MpsDaemons, MpsOptions
from gpufleet.agent.sharing.mps_clients import mps_clients
from gpufleet.agent.sharing.plan_record import PlanRecord
from gpufleet.agent.sharing.programs import MachinePrograms, SimulatedPrograms
from gpufleet.agent.sharing.sharing_source import OPTIONS, SharingOptions, SharingSource
from gpufleet.agent.sharing.sharing_texts import ConfigMapTexts, FileTexts, OwnLabels
from gpufleet.agent.topic import Topic
from gpufleet.kube.client import Client


class SharingSetup(msgspec.Struct, frozen=True):
    """Where the configuration lies, how it is read, where plans are kept, and where MPS is.

    ``strategies`` are the ways in which containers get devices; None where the configuration says.
    ``config`` is a file or a folder, ``config_map`` the namespace and name of a ConfigMap in its place; with
    neither none is declared. ``simulated`` puts a stand-in in place of NVIDIA's programs.
    """

    config: Path | None
    state_folder: Path
    config_map: tuple[str, str] | None = None
    options: SharingOptions = OPTIONS
    mps: MpsOptions = MPS_OPTIONS
    simulated: bool = False
    strategies: tuple[str, ...] | None = None


class Sharing:
    """The parts of sharing on one node. ``source.planner`` is the watchman's."""

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
            PlanRecord(setup.state_folder),
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

    def configuration(self) -> Part:
        """Follows the configuration."""
        return Part("sharing", self._follow)

    def daemons(self, gpus: Topic[NodeGpus]) -> Part:
        """Keeps the MPS daemons of these GPUs."""
        programs = SimulatedPrograms() if self.setup.simulated else MachinePrograms()
        mps = MpsDaemons(gpus, self.source.delivery, programs, self.client.clock, self.setup.mps)
        self.mps = mps
        return Part("mps", mps.run, lambda: mps.problems.value)

    def delivery(self, files: DeviceFiles) -> Delivery:
        """How devices are handed out now."""
        options = self.source.delivery.value or BY_CDI
        if self.setup.strategies is not None:
            options = msgspec.structs.replace(options, list_strategies=self.setup.strategies)
        addition = nothing_else if self.mps is None else mps_clients(self.mps)
        return Delivery(files.under(options), options, addition)

    def handing_out(self, keeper: Keeper, files: DeviceFiles) -> Part:
        """Tells the keeper of the kubelet's offers whenever the configuration wants another way."""

        async def follow() -> None:
            async for _ in self.source.delivery.follow():
                await keeper.hand_out(self.delivery(files))

        return Part("delivery", follow)

    def memory(self, readings: Topic[Readings]) -> Part:
        """Watches who uses more memory than its share; needs accounting, and the machine's own /proc."""
        return Part("memory watch", MemoryWatch(readings, self.pods, owner_of, self.offenders).run)

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._texts is not None:
                group.create_task(self._texts.run())
                group.create_task(self._labels.run())
            group.create_task(self._events.run())
            group.create_task(self.source.run())


def texts_of(setup: SharingSetup, client: Client) -> FileTexts | ConfigMapTexts | None:
    """Where the configuration lies; None where none is declared."""
    if setup.config is not None:
        return FileTexts(setup.config, client.clock)
    return None if setup.config_map is None else ConfigMapTexts(client, *setup.config_map)
