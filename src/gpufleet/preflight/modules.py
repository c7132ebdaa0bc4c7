"""Rules about what is loaded in the kernel: a module that is in use cannot make room for another."""

from collections.abc import Iterator

from gpufleet.model.fleet_policy import DriverSource
from gpufleet.model.phrases import listed
from gpufleet.preflight.facts import Case
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding

DRIVER_MODULES = (
    "nvidia_modeset",
    "nvidia_uvm",
    "nvidia_peermem",
    "nvidia_fs",
    "nvidia_vgpu_vfio",
    "gdrdrv",
    "nvidia",
)
"""In the order in which a driver manager unloads them."""

NOUVEAU = "nouveau"
UNLOADING = "Unloading"


def judge(case: Case) -> Iterator[PreflightFinding]:
    """What is loaded and stands in the way."""
    modules = case.host.modules
    # The finding facts-unknown says so; to accuse the host of anything would be a guess.
    if modules is None:
        return
    stuck = [name for name in DRIVER_MODULES if name in modules and modules[name].state == UNLOADING]
    if stuck:
        yield PreflightFinding(
            "module-stuck-unloading",
            FindingSeverity.BLOCKS,
            f"{listed(stuck)} has been told to leave the kernel and does not",
            "reboot the node: nothing else ends this state",
        )
    if NOUVEAU in modules:
        yield PreflightFinding(
            "nouveau-loaded",
            FindingSeverity.BLOCKS,
            "nouveau is loaded: to unload it under a console may crash the machine",
            "blacklist nouveau in the host's image and reboot",
        )
    held = [name for name in DRIVER_MODULES if name in modules and _holders(case, name) > 0]
    # Only where no pod is known to hold a GPU: None is not known, and accuses no process of the host.
    if held and case.node.gpu_pods == ():
        counts = ", ".join(f"{name} ({_holders(case, name)} references)" for name in held)
        yield PreflightFinding(
            "driver-held-outside-of-pods",
            FindingSeverity.BLOCKS,
            f"no pod holds a GPU, but {counts} is in use: a process of the host or a monitor",
            "end what has /dev/nvidia* open: nvidia-persistenced, dcgm, an exporter",
        )
    if case.wanted.source is DriverSource.IMAGE and case.host.driver_package:
        yield PreflightFinding(
            "host-driver-installed",
            FindingSeverity.BLOCKS,
            f"the host has a driver of its own: {case.host.driver_package}",
            "remove the package from the host's image, or choose source Host",
        )


def _holders(case: Case, name: str) -> int:
    """References that no other loaded module accounts for: processes."""
    found = (case.host.modules or {})[name]
    return found.references - len(found.used_by)
