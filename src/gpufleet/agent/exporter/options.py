"""How the series are to look: which counters, which labels, under which names."""

import re
from pathlib import Path
from typing import Literal

import msgspec

from gpufleet.agent.exporter.counters_file import ChosenCounters, default_counters
from gpufleet.agent.exporter.exporter_counters import OWN_LABELS as EXPORTER_LABELS
from gpufleet.agent.exporter.exporter_errors import ExporterOptionError
from gpufleet.agent.exporter.text import is_label_name
from gpufleet.model.label_syntax import is_label_key

# Each label multiplies the length of every series of a pod.
POD_LABELS_MAX = 32
_NO_LABEL_NAME = re.compile(r"[^a-zA-Z0-9_]")

OWN_LABELS = frozenset(
    {
        *("gpu", "uuid", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "vgpu"),
        *("Hostname", "hostname", "container", "namespace", "pod", "pod_uid", "hpc_job"),
        *("container_name", "pod_namespace", "pod_name", "err_code", "err_msg"),
        *("card_model", "clock_type", "gpu_compute_partition_type", "gpu_id", "gpu_memory_partition_type"),
        *("gpu_partition_id", "job_id", "serial_number", "node", "mode", "mig_profile", "mig_id"),
        *EXPORTER_LABELS,
    }
)
"""Labels that a pod's own label must not stand in for."""


class ExporterOptions(msgspec.Struct, frozen=True):
    """What dcgm-exporter's users can choose, under the same defaults.

    ``hostname_label`` is how the node's name is labelled: "Hostname" up to dcgm-exporter 4.8,
    "hostname" after it; empty leaves it out. ``old_names`` writes pod_name, pod_namespace,
    container_name and uuid. ``pod_labels`` are keys of pods' labels that become labels (``pod_label_names``).
    With ``virtual_gpus`` a shared GPU has a series for each container that holds a part of it; else one
    series, without a pod unless only one holds it. ``job_folder`` is where a batch system tells its jobs
    (``jobs``). Readings older than ``stale_after_s`` are no readings.
    """

    counters: ChosenCounters = msgspec.field(default_factory=default_counters)
    hostname_label: Literal["Hostname", "hostname", ""] = "Hostname"
    old_names: bool = False
    pod_uid: bool = False
    pod_labels: tuple[str, ...] = ()
    virtual_gpus: bool = False
    replace_blanks: bool = False
    job_folder: Path | None = None
    stale_after_s: float = 60.0


def pod_label_names(keys: tuple[str, ...]) -> dict[str, str]:
    """The label that each key of pods' labels becomes: what a name may not have turns into underscores.

    Raises ExporterOptionError for a key that is none, for one that would hide another label, and for
    too many.
    """
    if len(keys) > POD_LABELS_MAX:
        expected = f"at most {POD_LABELS_MAX}"
        raise ExporterOptionError("too many labels", field="pod labels", value=len(keys), expected=expected)
    names: dict[str, str] = {}
    for key in keys:
        if not is_label_key(key):
            raise ExporterOptionError("not a label's key", field="pod labels", value=key)
        name = _NO_LABEL_NAME.sub("_", key)
        name = name if is_label_name(name) else f"label_{name}"
        if name in OWN_LABELS or name.startswith("DCGM_") or name in names.values():
            expected = f"keys that become labels of their own; {name} is taken"
            raise ExporterOptionError("hides another label", field="pod labels", value=key, expected=expected)
        names[key] = name
    return names
