"""The labels of AMD's node labeller (k8s-node-labeller), from what the driver's files tell.

Each property has two names, with and without ``beta.``. Where all devices agree, the value is the label's
value; where they differ, each value is a part of the name and the number of devices its value. Partitions
of a GPU count as devices. Firmware and the driver's source version are not read, so they have no labels.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from gpufleet.agent.labels.values import Labels, driver_of, gpus_of, valid_value
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.label_syntax import is_label_key

DOMAIN = "amd.com"
# AMD's labeller writes memory in whole GiB, as 64G.
MIB_PER_GIB = 1024

FAMILIES = {
    **dict.fromkeys(("gfx900", "gfx904", "gfx906", "gfx908", "gfx90a", "gfx940"), "AI"),
    **dict.fromkeys(("gfx941", "gfx942", "gfx950"), "AI"),
    **dict.fromkeys(("gfx902", "gfx909", "gfx90c"), "RV"),
    **dict.fromkeys(("gfx1010", "gfx1011", "gfx1012", "gfx1030", "gfx1031", "gfx1032", "gfx1034"), "NV"),
    "gfx1033": "VGH",
    "gfx1035": "YC",
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1102"), "GC_11_0_0"),
    "gfx1103": "GC_11_0_1",
    "gfx1150": "GC_11_5_0",
}
"""The driver's families by the compiler's names: the kernel's amdgpu_discovery.c and amdgpu_drm.h."""


def amd_labels(known: NodeGpus) -> Labels:
    """The labels of a node's AMD GPUs; none without any."""
    gpus = gpus_of(known, Vendor.AMD)
    if not gpus:
        return {}
    devices = [device for gpu in gpus for device in _devices(gpu)]
    found: Labels = {}
    for name in ("device-id", "product-name", "family", "vram", "cu-count", "simd-count"):
        found |= _property(name, (device[name] for device in devices if name in device))
    driver = driver_of(known, Vendor.AMD)
    if driver is not None:
        found[f"{DOMAIN}/gpu.driver-version"] = valid_value(driver.version)
    return found | _partitioning(gpus)


def _devices(gpu: Gpu) -> list[dict[str, str]]:
    """What is known of a GPU, or of each of its partitions."""
    facts = gpu.facts
    # Partitions are equal, and the units are those of all of them together.
    parts = len(facts.mig) or 1
    simd_units = None if facts.simd_units is None else facts.simd_units // parts
    sizes = [(one.memory_mib, one.multiprocessors) for one in facts.mig]
    return [
        _known(
            {
                "device-id": None if facts.pci_device is None else f"{facts.pci_device:04x}",
                "product-name": valid_value(facts.product, space="_"),
                "family": FAMILIES.get(facts.architecture or ""),
                "vram": None if memory_mib is None else f"{round(memory_mib / MIB_PER_GIB)}G",
                "cu-count": None if units is None else str(units),
                "simd-count": None if simd_units is None else str(simd_units),
            }
        )
        for memory_mib, units in sizes or [(facts.memory_mib, facts.multiprocessors)]
    ]


def _known(values: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _property(name: str, values: Iterable[str]) -> Labels:
    counts = Counter(values)
    found: Labels = {}
    for value, count in counts.items():
        found[f"beta.{DOMAIN}/gpu.{name}.{value}"] = str(count)
        if len(counts) == 1:
            found |= {f"{prefix}{DOMAIN}/gpu.{name}": value for prefix in ("", "beta.")}
        else:
            found[f"{DOMAIN}/gpu.{name}.{value}"] = str(count)
    # A long name of a product may not fit into a label's.
    return {key: value for key, value in found.items() if is_label_key(key)}


def _partitioning(gpus: Sequence[Gpu]) -> Labels:
    ways = {gpu.facts.partitioning for gpu in gpus}
    told = [way for way in ways if way is not None]
    memory = any("_" in way for way in told)
    found = {
        f"{DOMAIN}/compute-partitioning-supported": "true" if told else "false",
        f"{DOMAIN}/memory-partitioning-supported": "true" if memory else "false",
    }
    if len(ways) == 1 and told:
        found[f"{DOMAIN}/compute-memory-partition"] = valid_value(told[0], space="_")
    return found
