"""Which backends the agent uses: the vendors' own, or one simulated machine in their place.

A vendor's code is imported when its hardware is there and not before; a node has one vendor's GPUs, and
need not carry the libraries of the others.
"""

import platform
from collections.abc import Callable, Mapping
from pathlib import Path

from gpufleet.agent.gpus.vendor_monitor import AsyncBackend
from gpufleet.devices.backend import Backend
from gpufleet.devices.device_errors import DriverError, MachineError
from gpufleet.devices.drm_cards import Roots
from gpufleet.devices.partitioner import Partitioner
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.description import Description, read_description
from gpufleet.devices.simulated.machine import Machine, Users
from gpufleet.devices.simulated.partitioner import SimulatedPartitioner
from gpufleet.devices.simulated.topology import read_topology
from gpufleet.devices.threaded_backend import ThreadedBackend
from gpufleet.devices.yaml_text import SIZE_MAX_BYTES
from gpufleet.files.regular import read_regular
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId

Backends = Mapping[Vendor, Callable[[], AsyncBackend]]
TOPOLOGY_MARKS = (b"nodePools", b"gpuProduct")
"""Fields of a topology of fake-gpu-operator, of a cluster or of one node, that our own form does not have."""


def real_backends(
    clock_s: Callable[[], float], wall_s: Callable[[], float], root: Path = Path("/")
) -> Backends:
    """The backends of all vendors; below ``root`` are this machine's sys, dev and proc.

    ``clock_s`` counts on steadily, and ``wall_s`` is the time since the epoch; threads ask both.
    """
    roots = Roots(root / "sys", root / "dev", platform.release())
    return {
        Vendor.NVIDIA: lambda: ThreadedBackend(_nvidia(root, clock_s, wall_s)),
        Vendor.AMD: lambda: ThreadedBackend(_amd(roots, clock_s)),
        Vendor.INTEL: lambda: ThreadedBackend(_intel(roots, clock_s)),
    }


def simulated_backends(machine: Machine) -> Backends:
    """The machine's, as its vendor's."""
    return {machine.description.vendor: lambda: ThreadedBackend(SimulatedBackend(machine))}


def partitioner(machine: Machine | None) -> Partitioner:
    """What cuts cards into MIG instances: of the simulated machine, or NVIDIA's."""
    if machine is not None:
        return SimulatedPartitioner(machine)
    from gpufleet.devices.nvidia.partitioner import NvidiaPartitioner

    return NvidiaPartitioner(_refuse_reset)


def _refuse_reset(uuid: DeviceId) -> None:
    # NVML has no call for it; people reset a card with the driver's own program.
    raise DriverError(f"the agent cannot reset a card: run nvidia-smi --gpu-reset -i {uuid} on the node")


def read_machine(file: Path, node: str, users: Users, clock_s: Callable[[], float]) -> Machine:
    """The simulated machine of a file, in our form or as fake-gpu-operator's topology. Raises InputError.

    ``clock_s`` is asked from the threads of backends.
    """
    try:
        text = read_regular(file, SIZE_MAX_BYTES, field="--simulated")
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise MachineError(
            problem, field="--simulated", value=str(file), expected="a readable file"
        ) from error
    return Machine(_description(text, str(file)), clock_s, users, node)


def _description(text: bytes, where: str) -> Description:
    if any(mark in text for mark in TOPOLOGY_MARKS):
        return read_topology(text, where=where).description
    return read_description(text, where)


def _nvidia(root: Path, clock_s: Callable[[], float], wall_s: Callable[[], float]) -> Backend:
    from gpufleet.devices.nvidia.backend import NvidiaBackend

    return NvidiaBackend(root, clock_s=clock_s, wall_s=wall_s)


def _amd(roots: Roots, clock_s: Callable[[], float]) -> Backend:
    from gpufleet.devices.amd.backend import AmdBackend

    return AmdBackend(roots, clock_s)


def _intel(roots: Roots, clock_s: Callable[[], float]) -> Backend:
    from gpufleet.devices.intel.backend import IntelBackend

    return IntelBackend(roots, clock_s)
