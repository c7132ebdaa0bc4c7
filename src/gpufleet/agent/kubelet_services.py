"""The parts of the agent that face the kubelet: holders, whole devices, shares, and their CDI files.

``assembly`` makes it and runs its parts.
"""

import os
from collections.abc import Callable

from gpufleet.agent.device_plugin.cdi import CdiEdits
from gpufleet.agent.device_plugin.delivery import BY_CDI, Delivery
from gpufleet.agent.device_plugin.open_call_record import OpenCallRecord
from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.share_allocator import ShareAllocator, ShareInputs
from gpufleet.agent.device_plugin.share_files import ShareFiles
from gpufleet.agent.device_plugin.share_slot_registrar import ShareSlotRegistrar
from gpufleet.agent.device_plugin.static_devices import DeviceFiles, device_edits
from gpufleet.agent.device_plugin.whole_device_allocator import AllocatorInputs
from gpufleet.agent.device_plugin.whole_device_registrar import Setup, WholeDeviceRegistrar
from gpufleet.agent.holders.holder_memory import HolderMemory
from gpufleet.agent.holders.holder_monitor import HolderMonitor, HolderSources
from gpufleet.agent.holders.holder_record import HolderRecord
from gpufleet.agent.holders.reported_holders import reported_holders
from gpufleet.agent.kubelet.pods import Pods
from gpufleet.agent.machine_access import MachineAccess
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.supervisor import AgentPart, said
from gpufleet.kube.client import Client
from gpufleet.model.gpu_catalogue import Vendor

CHECKPOINT = "checkpoint.json"
STAND_IN = "/dev/null"
"""What a container gets in place of the device nodes of a simulated GPU."""


class KubeletServices:
    """Made from what is known of the node's GPUs and pods; the topic ``holders`` is kept by it."""

    def __init__(
        self,
        settings: AgentSettings,
        gpus: Topic[NodeGpus],
        pods: Pods,
        known_pods: Topic[NodePods],
        holders: Topic[Holders],
        access: MachineAccess,
        client: Client,
    ) -> None:
        self.settings = settings
        self.clock = client.clock
        self.access = access
        self.gpus = gpus
        self.pods = pods
        self.known_pods = known_pods
        self.holders = holders
        self.files = _device_files(settings)
        self.memory = HolderMemory(
            client.clock, HolderRecord(settings.state_folder, access.boot_id, access.disk)
        )
        sources = HolderSources(
            self.memory,
            gpus,
            lambda: self.pods.listed,
            lambda: reported_holders(client, settings.node, access.boot_id),
            lambda: self.pods.ended,
        )
        self.watch = HolderMonitor(
            access.lister, settings.device_plugins, known_pods, self.holders, sources, client.clock
        )
        self.registration = KubeletRegistration(client.clock, access.link)
        self.registrar = self._registrar()
        self.shares = self._shares()

    @property
    def whole(self) -> bool:
        """Whether pods and holders are known as far as there are any."""
        return self.pods.listed and self.watch.known

    def parts(self) -> list[AgentPart]:
        """What is to be run."""
        return [
            AgentPart("pods", self.pods.run, lambda: said(self.pods.problem)),
            AgentPart("holders", self.watch.run, self._unknown),
            AgentPart("registration", self.registration.run, self._unregistered),
            AgentPart("devices", self.registrar.run, lambda: said(self.registrar.problem)),
            AgentPart("shares", self.shares.run, lambda: said(self.shares.problem)),
        ]

    def _unknown(self) -> tuple[str, ...]:
        """Why the holders are not known, or would not be after a restart."""
        return said(self.watch.problem) + said(self.memory.problem)

    def _unregistered(self) -> tuple[str, ...]:
        if self.registration.registered:
            return ()
        return said(self.registration.problem or f"no kubelet at {self.settings.device_plugins}")

    def _registrar(self) -> WholeDeviceRegistrar:
        known = AllocatorInputs(
            self.gpus,
            self.known_pods,
            self.holders,
            self.pods.ask,
            self.watch.ask,
            self.memory,
            self.clock,
            gave=self.watch.look,
            grant_required=self.settings.require_grant,
            whole=lambda: self.watch.sure,
        )
        setup = Setup(Delivery(self.files.under(BY_CDI)), self.settings.cdi_folder, disk=self.access.disk)
        return WholeDeviceRegistrar(known, self.registration, setup)

    def _shares(self) -> ShareSlotRegistrar:
        world = ShareInputs(
            self.gpus,
            self.known_pods,
            self.holders,
            self.pods.ask,
            self.watch.ask,
            share_edits(self.gpus, self.registrar),
            self.watch.look,
            self.memory,
            new_name=self.access.new_name,
            whole=lambda: self.watch.sure,
        )
        checkpoint = OpenCallRecord(
            self.settings.state_folder / CHECKPOINT, self.access.boot_id, self.access.disk
        )
        files = ShareFiles(self.settings.cdi_folder, self.access.disk)
        allocator = ShareAllocator(world, files, checkpoint, self.settings.device_plugins)
        return ShareSlotRegistrar(allocator, self.registration, self.gpus, self.holders)


def _device_files(settings: AgentSettings) -> DeviceFiles:
    """Where this machine's devices are, or what stands in for them."""
    if settings.simulated is not None:
        return DeviceFiles(stand_in=STAND_IN)
    in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    return DeviceFiles(folder=settings.driver_root, in_pod=in_pod)


def share_edits(gpus: Topic[NodeGpus], registrar: WholeDeviceRegistrar) -> Callable[[Gpu], CdiEdits]:
    """What makes a GPU usable in a container that has a share of it: its nodes and its driver's files."""

    def edits(gpu: Gpu) -> CdiEdits:
        own = device_edits(gpu.facts, "", registrar.files)
        if gpu.facts.vendor is not Vendor.NVIDIA:
            return own
        return own.and_then(registrar.driver_edits(gpus.value))

    return edits
