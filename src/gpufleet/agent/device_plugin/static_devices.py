"""CDI files of the node's whole GPUs and MIG instances: what each of them is to a container.

Everything in them comes from the drivers and this machine, nothing from a pod. A container that is given
one of NVIDIA's devices this way gets ``NVIDIA_VISIBLE_DEVICES=void`` in place of whatever its image or its
pod says, so that a runtime of NVIDIA's below adds nothing on its own: "all" would be every GPU of the node.
There is one file for each vendor; ``whole_device_registrar`` writes them before a device is offered.
"""

from collections.abc import Iterator
from pathlib import Path

from gpufleet.agent.device_plugin.cdi import CdiDevice, CdiEdits, CdiNode, CdiSpec
from gpufleet.agent.device_plugin.driver_files import Root
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.model.gpu_catalogue import Vendor

KIND = "gpufleet.io/gpu"
# NVIDIA's runtime, where it is the default too, adds no devices of its own then.
GUARD = ("NVIDIA_VISIBLE_DEVICES=void",)
NVIDIA_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
"""Nodes of all of NVIDIA's GPUs together; each is used where the machine has it."""

# All of AMD's GPUs compute through this one device.
AMD_NODES = ("/dev/kfd",)
ROOT = Root()
VENDORS = (Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL)


class DeviceFiles:
    """Where the machine's device nodes and NVIDIA's driver are.

    ``folder`` is the machine's folder in which the driver is, unless options name another. A simulated
    machine has neither: ``stand_in`` is then used for each node. In a pod, the machine's files are seen
    only where they are mounted; ``driver`` is None where they are not.
    """

    def __init__(
        self,
        nodes: Root = ROOT,
        driver: Root | None = ROOT,
        *,
        folder: str = "/",
        stand_in: str = "",
        in_pod: bool = False,
    ) -> None:
        self.driver = None if stand_in else driver
        self.simulated = bool(stand_in)
        self._nodes = nodes
        self._stand_in = stand_in
        self._folder = folder
        self._in_pod = in_pod

    def under(self, options: DeliveryOptions) -> "DeviceFiles":
        """The files of this machine, with driver and device nodes in the folders that the options name."""
        if self.simulated:
            return self
        named, dev_root = options.driver_root, options.dev_root
        if named == "/":
            named = self._folder
            dev_root = self._folder if dev_root == "/" else dev_root
        mounted = Path(options.container_driver_root)
        shown = mounted if mounted.is_dir() else None if self._in_pod else Path(named)
        driver = None if shown is None else Root(shown, named)
        if driver is not None and dev_root == named:
            nodes = driver
        else:
            # What a pod has in its own /dev is what its runtime gave it of the machine's.
            nodes = Root(ROOT.seen if self._in_pod else Path(dev_root), dev_root)
        return DeviceFiles(nodes, driver, folder=self._folder, in_pod=self._in_pod)

    def on_host(self, path: str) -> str | None:
        """Where the runtime finds what containers know as ``path``; None where there is no such node."""
        if self._stand_in:
            return self._stand_in
        there = (self._nodes.seen / path.lstrip("/")).exists()
        return self._nodes.host.rstrip("/") + path if there else None

    def matching(self, pattern: str) -> tuple[str, ...]:
        """The machine's device nodes of names like this, as containers know them."""
        if self._stand_in:
            return ()
        seen = self._nodes.seen
        return tuple(sorted(f"/{path.relative_to(seen)}" for path in seen.glob(pattern.lstrip("/"))))


def needed_nodes(gpu: GpuFacts, instance: str = "") -> tuple[str, ...]:
    """The device nodes, as paths in a container, that a program needs for a GPU or an instance of it.

    An instance of NVIDIA's needs its GPU's as well; a partition of AMD's has its own in their place.
    """
    own = next((one.device_nodes for one in gpu.mig if one.uuid == instance), ())
    match gpu.vendor:
        case Vendor.NVIDIA:
            return (*gpu.device_nodes, *own, *NVIDIA_NODES)
        case Vendor.AMD:
            return (*(own or gpu.device_nodes), *AMD_NODES)
        case _:
            return gpu.device_nodes


def device_edits(gpu: GpuFacts, instance: str, files: DeviceFiles) -> CdiEdits:
    """What is done to a container that gets this GPU or this instance of it, beside its driver's files."""
    found = ((path, files.on_host(path)) for path in needed_nodes(gpu, instance))
    nodes = tuple(
        CdiNode(path, host_path="" if host == path else host) for path, host in found if host is not None
    )
    return CdiEdits(GUARD if gpu.vendor is Vendor.NVIDIA else (), nodes)


def static_specs(node: NodeGpus, files: DeviceFiles, driver: CdiEdits) -> dict[str, CdiSpec]:
    """The files by their names, for each vendor that has devices here.

    ``driver`` are the files of NVIDIA's driver that every container with one of its devices needs.
    """
    found = {}
    for vendor in VENDORS:
        devices = tuple(_devices(node, vendor, files))
        if devices:
            edits = driver if vendor is Vendor.NVIDIA else CdiEdits()
            found[spec_name(vendor)] = CdiSpec(KIND, devices, edits)
    return found


def spec_name(vendor: Vendor) -> str:
    """The name of a vendor's file."""
    return f"gpufleet.io-gpu-{vendor.value.lower()}"


def _devices(node: NodeGpus, vendor: Vendor, files: DeviceFiles) -> Iterator[CdiDevice]:
    for gpu in node.gpus:
        if gpu.facts.vendor is not vendor:
            continue
        for name in (gpu.uuid, *(one.uuid for one in gpu.facts.mig)):
            instance = "" if name == gpu.uuid else name
            yield CdiDevice(name, device_edits(gpu.facts, instance, files))
