"""The mounts that a real node sees: the machine's own, but for the places where a node keeps its things.

Some paths of kubelet and containerd are fixed in their code or in the programs that talk to them (device
plugins, shims, log readers). In a namespace of mounts of its own each node has these places to itself,
whatever runs on the machine, and all mounts that kubelet and containerd make go with the namespace. A covered
folder (/run, /var/lib, /var/log) keeps the machine's other entries, so nothing has to be created there.

The kubelet writes settings of the whole machine's kernel (what happens when memory runs out, or at a panic).
It finds copies in their place: the machine's settings stay as they are.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpufleet.files.regular import read_kernel_file
from gpufleet.localkube.node import linux

KUBELET = "/var/lib/kubelet"
"""The kubelet's folder, where every client of it expects it."""

PLACES: Mapping[str, tuple[str, ...]] = {
    "/var/lib": ("kubelet", "cni"),
    "/var/log": ("pods", "containers"),
    "/run": ("containerd", "netns", "cdi", "nri", "runc"),
}
"""What the node has to itself in each covered folder."""

KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def enter(folder: Path) -> None:
    """Move this process into a view of its own, with the node's files in ``folder``."""
    linux.unshare(linux.CLONE_NEWNS)
    # What is mounted or unmounted on the machine happens here too, but nothing of here happens there.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
    for parent, names in PLACES.items():
        own = {name: folder / "places" / parent[1:].replace("/", "-") / name for name in names}
        for place in own.values():
            place.mkdir(parents=True, exist_ok=True)
        _cover(Path(parent), own)
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    _copy_settings(folder / "kernel-settings")
    # Volumes may be mounted from one container into another only where mounts are shared.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SHARED)


def can_overlay(folder: Path) -> bool:
    """Whether containers' files can be layers over one another there; not on every file system."""
    parts = [folder / name for name in ("lower", "upper", "work", "merged")]
    for part in parts:
        part.mkdir(parents=True, exist_ok=True)
    lower, upper, work, merged = map(str, parts)
    try:
        linux.mount("overlay", merged, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}")
    except OSError:
        return False
    linux.detach(merged)
    return True


def _cover(parent: Path, own: Mapping[str, Path]) -> None:
    """Put an empty folder over ``parent`` with its entries in it, but for those that are the node's own."""
    mode = stat.S_IMODE(parent.stat().st_mode)
    links = {entry.name: entry.readlink() for entry in parent.iterdir() if entry.is_symlink()}
    others = {entry.name: entry for entry in parent.iterdir() if not entry.is_symlink()}
    opened = {name: os.open(path, os.O_PATH | os.O_CLOEXEC) for name, path in {**others, **own}.items()}
    linux.mount("tmpfs", str(parent), "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode={mode:o}")
    for name, target in links.items():
        if name not in own:
            (parent / name).symlink_to(target)
    for name, descriptor in opened.items():
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            (parent / name).mkdir()
        else:
            (parent / name).touch()
        # The open file still is what was there before the folder was covered.
        flags = linux.MS_BIND | linux.MS_REC
        linux.mount(f"/proc/self/fd/{descriptor}", str(parent / name), flags=flags)
        os.close(descriptor)


def _copy_settings(folder: Path) -> None:
    for real, copy in _settings(folder):
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(read_kernel_file(real))
        linux.mount(str(copy), str(real), flags=linux.MS_BIND)


def _settings(folder: Path) -> Iterator[tuple[Path, Path]]:
    for setting in KERNEL_SETTINGS:
        real = Path("/proc/sys") / setting
        if real.exists():
            yield real, folder / setting
