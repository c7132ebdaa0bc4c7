"""What a node has of local storage: NVMe disks of its own, and whether GPUs read from storage directly.

A pod asks for either by ``nodeSelector`` or node affinity. Network disks that show as NVMe are no local
ones. GPUDirect Storage has two ways: NVIDIA's module nvidia-fs, and the kernel's own transfers between PCI
devices, which need the settings that NVIDIA's guide of GPUDirect Storage lists.
"""

import platform
import re
from collections.abc import Iterator
from pathlib import Path

from gpufleet.agent.labels.values import Labels
from gpufleet.files.regular import UnfitFileError, read_beginning
from gpufleet.kube.keys import GPUDIRECT_STORAGE, NVME_DISKS, NVME_GIB

SECTOR_BYTES = 512
"""The unit of ``/sys/block/*/size``, whatever the disk's own sectors are."""

GIB = 1 << 30
NVIDIA_FS, PCI_TRANSFERS = "nvidia-fs", "p2pdma"
OPEN_DRIVER_LEAST, KERNEL_LEAST = 565, (6, 2)
"""The open driver and the Linux from which transfers between PCI devices serve GPUDirect Storage."""

NETWORK_MODELS = ("Amazon Elastic Block Store", "MSFT NVMe Accelerator", "nvme_card-pd")
"""How network disks of AWS, Azure and Google Cloud call themselves."""

DRIVER_SETTINGS = ("RMForceStaticBar1=1", "RmForceDisableIomapWC=1")
"""What the driver must be loaded with on x86 machines for transfers between PCI devices."""

_FILE_BYTES_MAX = 4096
"""These files of the kernel have a line or two, and the driver's settings fewer than a hundred."""
_DISK = re.compile(r"nvme[0-9]+n[0-9]+")
_OPEN_DRIVER = re.compile(r"Open Kernel Module.*?\s([0-9]+)\.[0-9.]+\s")
_RELEASE = re.compile(r"([0-9]+)\.([0-9]+)")


def storage_labels(root: Path = Path("/"), release: str = "", machine: str = "") -> Labels:
    """The labels of the machine below a root; none of what it has not.

    ``release`` and ``machine`` are the kernel's and the processor's, by default those of this machine.
    """
    found: Labels = {}
    sizes = list(_local_disks(root))
    if sizes:
        found[NVME_DISKS] = str(len(sizes))
        found[NVME_GIB] = str(sum(sizes) // GIB)
    way = _gpudirect(root, release or platform.release(), machine or platform.machine())
    if way:
        found[GPUDIRECT_STORAGE] = way
    return found


def _local_disks(root: Path) -> Iterator[int]:
    """The size of each NVMe disk that is on a PCI bus of the machine, in bytes."""
    folder = root / "sys/block"
    try:
        names = sorted(one.name for one in folder.iterdir() if _DISK.fullmatch(one.name))
    except OSError:
        return
    for name in names:
        device = folder / name / "device"
        # With several paths to a disk its device is a subsystem, which has the controllers in it.
        transports = [_text(one / "transport") for one in (device, *_controllers(device))]
        known = [one for one in transports if one]
        if _text(device / "model").startswith(NETWORK_MODELS) or (known and "pcie" not in known):
            continue
        sectors = _text(folder / name / "size")
        if sectors.isascii() and sectors.isdigit() and int(sectors):
            yield int(sectors) * SECTOR_BYTES


def _controllers(device: Path) -> list[Path]:
    try:
        return sorted(one for one in device.iterdir() if re.fullmatch(r"nvme[0-9]+", one.name))
    except OSError:
        return []


def _gpudirect(root: Path, release: str, machine: str) -> str:
    """How GPUs read from storage without a copy through memory, "" for not at all."""
    if (root / "sys/module/nvidia_fs").is_dir():
        return NVIDIA_FS
    kernel = _RELEASE.match(release)
    driver = _OPEN_DRIVER.search(_text(root / "proc/driver/nvidia/version"))
    if kernel is None or driver is None or int(driver[1]) < OPEN_DRIVER_LEAST:
        return ""
    if (int(kernel[1]), int(kernel[2])) < KERNEL_LEAST:
        return ""
    if _text(root / "sys/module/nvme_core/parameters/multipath") != "N":
        return ""
    settings = _text(root / "proc/driver/nvidia/params")
    if machine == "x86_64" and not all(one in settings for one in DRIVER_SETTINGS):
        return ""
    return PCI_TRANSFERS


def _text(file: Path) -> str:
    """The beginning of a small file; "" where there is none."""
    try:
        return read_beginning(file, _FILE_BYTES_MAX).decode("utf-8", "replace").strip()
    except (OSError, UnfitFileError):
        return ""
