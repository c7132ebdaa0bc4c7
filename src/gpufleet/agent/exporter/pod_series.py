"""What each pod holds and uses of each GPU, whatever way the GPU is shared.

One series for each pod and device (a GPU, or a MIG instance of it), over all containers of the pod. A
pod's use is absent where it cannot be told apart (``usage``).
"""

from gpufleet.agent.exporter.energy import Account, EnergyCounters
from gpufleet.agent.exporter.gpu_series import MIB, device_labels, joules
from gpufleet.agent.exporter.gpu_snapshot import GpuSnapshot
from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.agent.exporter.text import Family, Value, labelled, series
from gpufleet.agent.exporter.usage import DeviceUse, PodUse

HELD = Family("gpufleet_pod_gpu_held_ratio", "gauge", "Part of the whole card that the pod holds, 0 to 1.")
MEMORY_HELD = Family(
    "gpufleet_pod_gpu_memory_held_bytes",
    "gauge",
    "Device memory that the pod's part stands for; MIG and MPS keep it within, other modes do not.",
)
MEMORY_USED = Family(
    "gpufleet_pod_gpu_memory_used_bytes", "gauge", "Device memory that the pod's programs use."
)
USED = Family(
    "gpufleet_pod_gpu_used_ratio",
    "gauge",
    "Part of the time in which the pod's programs computed on the card, or on its MIG instance, 0 to 1.",
)
ENERGY = Family(
    "gpufleet_pod_gpu_energy_joules_total",
    "counter",
    "The pod's part of the card's energy: by compute while it computed, by what is held while it idled.",
)
FAMILIES = (HELD, MEMORY_HELD, MEMORY_USED, USED, ENERGY)


def lines(snapshot: GpuSnapshot, energy: EnergyCounters, options: ExporterOptions) -> dict[str, str]:
    """The series of the pods on a GPU, by the name of their family."""
    found: dict[str, list[str]] = {family.name: [] for family in FAMILIES}
    for device in snapshot.uses:
        for pod in device.pods:
            labels = labelled(_labels(snapshot, device, pod, options))
            for family, value in _values(snapshot, device, pod, energy):
                found[family.name].append(series(family.name, labels, value))
    return {name: "".join(own) for name, own in found.items()}


def _labels(
    snapshot: GpuSnapshot, device: DeviceUse, use: PodUse, options: ExporterOptions
) -> list[tuple[str, str]]:
    pairs = [
        *device_labels(snapshot, device.instance),
        ("mode", use.mode),
        ("namespace", use.pod.namespace),
        ("pod", use.pod.name),
    ]
    if options.pod_uid:
        pairs.append(("pod_uid", use.pod.uid))
    return [*pairs, *sorted(snapshot.pod_labels.get(use.pod, ()))]


def _values(
    snapshot: GpuSnapshot, device: DeviceUse, use: PodUse, energy: EnergyCounters
) -> list[tuple[Family, Value]]:
    account = Account(use.pod, None if device.instance is None else device.instance.uuid)
    return [
        (HELD, use.card_ratio),
        (MEMORY_HELD, _bytes(use.memory_held_mib)),
        (MEMORY_USED, _bytes(use.memory_used_mib)),
        (USED, use.used_ratio),
        (ENERGY, joules(energy.of_pod(snapshot.gpu.uuid, account))),
    ]


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB
