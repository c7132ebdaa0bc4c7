"""The GPUs that the driver lists, and what does not change about them.

The NUMA node is the one of the processor that the GPU hangs on, because that is what the kubelet counts
in; so it is read from sysfs first. NVML's own ``nvmlDeviceGetNumaNodeId`` names another: the node that
the GPU's memory forms where the processor sees it (Grace). Where no sysfs is there, NVML's memory
affinity answers, if it names one node.
"""

import uuid
from pathlib import Path

from gpufleet.devices.device_errors import GpuLostError
from gpufleet.devices.facts import Driver, Fleet, GpuFacts
from gpufleet.devices.nvidia.instances import instance_facts
from gpufleet.devices.nvidia.links import links
from gpufleet.devices.nvidia.nvml import MIB, Handle, Nvml
from gpufleet.devices.nvidia.refusals import Answers, CallFailedError, NotGivenError, ResetNeededError
from gpufleet.devices.sysfs import number
from gpufleet.files.regular import read_kernel_file
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""NVML_DEVICE_ARCH_*."""

BRANDS = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "GRID",
    5: "GeForce",
    6: "Titan",
    7: "NVIDIA vApps",
    8: "NVIDIA vPC",
    9: "NVIDIA vCS",
    10: "NVIDIA vWS",
    11: "NVIDIA Cloud Gaming",
    12: "Quadro RTX",
    13: "NVIDIA RTX",
    14: "NVIDIA",
    15: "GeForce RTX",
    16: "Titan RTX",
}
"""Names of brands by their number, NVML_BRAND_* of nvml.h."""

CORES_PER_MULTIPROCESSOR = {
    (7, 0): 64,
    (7, 2): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
}
"""Single-precision results a clock, by compute capability: CUDA's programming guide, "Arithmetic
Instructions". The driver tells a GPU's cores only."""

FABRIC_JOINED = 3
"""NVML_GPU_FABRIC_STATE_COMPLETED of nvml.h."""

# A fabric without a cluster's id joins no other node.
NO_CLUSTER = bytes(16)


def fleet(nvml: Nvml, root: Path) -> tuple[Fleet, dict[DeviceId, Handle]]:
    """All GPUs that answer, with their handles. ``root`` is where sys and proc are mounted below.

    A GPU that does not tell its UUID is left out: there is no name to report it by.
    """
    gpus = []
    for index in range(nvml.count()):
        try:
            handle = nvml.by_index(index)
            gpus.append((_facts(nvml, handle, index, root), handle))
        except (GpuLostError, ResetNeededError, CallFailedError, NotGivenError):
            continue
    try:
        between = links(nvml, gpus, Answers())
    # Links are told of pairs, so one GPU that is lost must not take the list of the others.
    except GpuLostError:
        between = {}
    found = Fleet(_driver(nvml), tuple(gpu for gpu, _ in gpus), between)
    return found, {gpu.uuid: handle for gpu, handle in gpus}


def _driver(nvml: Nvml) -> Driver:
    answers = Answers()
    cuda = answers.ask(nvml.cuda_version)
    return Driver(
        Vendor.NVIDIA,
        nvml.driver_version(),
        None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        answers.ask(nvml.version),
    )


def _facts(nvml: Nvml, handle: Handle, index: int, root: Path) -> GpuFacts:
    answers = Answers()
    name = DeviceId(nvml.uuid(handle))
    memory = answers.ask(lambda: nvml.memory(handle))
    minor = answers.ask(lambda: nvml.minor(handle))
    bus_id = answers.ask(lambda: nvml.pci_bus_id(handle))
    capability = answers.ask(lambda: nvml.capability(handle))
    return GpuFacts(
        uuid=name,
        vendor=Vendor.NVIDIA,
        index=index,
        product=answers.ask(lambda: nvml.name(handle)) or "",
        minor=minor,
        memory_mib=None if memory is None else memory.total // MIB,
        reserved_mib=None if memory is None else memory.reserved // MIB,
        pci_bus_id=bus_id,
        serial=answers.ask(lambda: nvml.serial(handle)),
        numa_node=_numa_node(nvml, handle, bus_id, answers, root),
        compute_capability=capability,
        multiprocessors=_multiprocessors(answers.ask(lambda: nvml.cores(handle)), capability),
        architecture=ARCHITECTURES.get(answers.ask(lambda: nvml.architecture(handle)) or 0),
        brand=BRANDS.get(answers.ask(lambda: nvml.brand(handle)) or 0),
        clique=_clique(nvml, handle, answers),
        mig_enabled=answers.ask(lambda: nvml.mig_mode(handle)),
        mig=instance_facts(nvml, handle, minor, answers, root),
        device_nodes=() if minor is None else (f"/dev/nvidia{minor}",),
        pci_class=None if bus_id is None else number(_folder(bus_id, root) / "class"),
    )


def _multiprocessors(cores: int | None, capability: tuple[int, int] | None) -> int | None:
    each = None if capability is None else CORES_PER_MULTIPROCESSOR.get(capability)
    return None if cores is None or each is None else cores // each


def _clique(nvml: Nvml, handle: Handle, answers: Answers) -> str | None:
    """Cluster and clique of a fabric that the GPU has joined, as the label gpu.clique writes them."""
    fabric = answers.ask(lambda: nvml.fabric(handle))
    if fabric is None or fabric.state != FABRIC_JOINED or fabric.status or fabric.cluster == NO_CLUSTER:
        return None
    return f"{uuid.UUID(bytes=fabric.cluster)}.{fabric.clique}"


def _folder(bus_id: str, root: Path) -> Path:
    """What sysfs tells of a device. NVML writes the domain with eight digits, the kernel with four."""
    domain, _, place = bus_id.lower().partition(":")
    return root / "sys/bus/pci/devices" / f"{domain[-4:]}:{place}"


def _numa_node(nvml: Nvml, handle: Handle, bus_id: str | None, answers: Answers, root: Path) -> int | None:
    if bus_id is not None:
        file = _folder(bus_id, root) / "numa_node"
        try:
            # The kernel says -1 where it knows of no node.
            node = int(read_kernel_file(file))
        except (OSError, ValueError):
            pass
        else:
            return node if node >= 0 else None
    nodes = answers.ask(lambda: nvml.memory_affinity(handle)) or 0
    # Near to several nodes is near to none in particular.
    return nodes.bit_length() - 1 if nodes.bit_count() == 1 else None
