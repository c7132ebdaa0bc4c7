"""CDI files of the node's whole GPUs and MIG instances: what each of them is to a container.

Everything in them comes from the drivers and this machine, nothing from a pod. A container that is given
one of NVIDIA's devices this way gets ``NVIDIA_VISIBLE_DEVICES=void`` in place of whatever its image or its
pod says, so that a runtime of NVIDIA's below adds nothing on its own: "all" would be every GPU of the node.
There is one file for each vendor; ``keeper`` writes them before a device is offered.
"""

from collections.abc import Iterator
from pathlib import Path

from gpufleet.agent.cdi import CdiDevice, CdiEdits, CdiNode, CdiSpec
from gpufleet.agent.known import NodeGpus
from gpufleet.devices.facts import GpuFacts
from gpufleet.model.gpu_catalogue import Vendor

KIND = "gpufleet.io/gpu"
GUARD = ("NVIDIA_VISIBLE_DEVICES=void",)
NVIDIA_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
"""Nodes of all of NVIDIA's cards together; each is used where the machine has it."""

AMD_NODES = ("/dev/kfd",)
VENDORS = (Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL)


class DeviceFiles:
    """Where the machine's device nodes are.

    ``seen`` is the machine's root as this process sees it, ``host`` the folder below which the container
    runtime finds device nodes. A simulated machine has none: ``stand_in`` is then used for each.
    """

    def __init__(self, seen: Path = Path("/"), host: str = "/", stand_in: str = "") -> None:
        self._seen = seen
        self._host = host.rstrip("/")
        self._stand_in = stand_in

    def on_host(self, path: str) -> str | None:
        """Where the runtime finds what containers know as ``path``; None where there is no such node."""
        if self._stand_in:
            return self._stand_in
        host = f"{self._host}{path}"
        return host if (self._seen / host.lstrip("/")).exists() else None


def needed_nodes(card: GpuFacts, instance: str = "") -> tuple[str, ...]:
    """The device nodes, as paths in a container, that a program needs for a card or an instance of it.

    An instance of NVIDIA's needs its card's as well; a partition of AMD's has its own in their place.
    """
    own = next((one.device_nodes for one in card.mig if one.uuid == instance), ())
    match card.vendor:
        case Vendor.NVIDIA:
            return (*card.device_nodes, *own, *NVIDIA_NODES)
        case Vendor.AMD:
            return (*(own or card.device_nodes), *AMD_NODES)
        case _:
            return card.device_nodes


def device_edits(card: GpuFacts, instance: str, files: DeviceFiles) -> CdiEdits:
    """What is done to a container that gets this card or this instance of it, beside its driver's files."""
    found = ((path, files.on_host(path)) for path in needed_nodes(card, instance))
    nodes = tuple(
        CdiNode(path, host_path="" if host == path else host) for path, host in found if host is not None
    )
    return CdiEdits(GUARD if card.vendor is Vendor.NVIDIA else (), nodes)


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
