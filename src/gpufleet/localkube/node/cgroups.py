"""The control group of one real node, in every hierarchy that the machine has.

The kubelet puts its pods below a group that must be there. Machines have one hierarchy (version 2), one per
controller (version 1), or both beside each other; all are handled alike: the group is a folder in each. Where
there is version 2 only, the controllers that the kubelet asks for are switched on for all groups, as every
container runtime does there; they stay on, because another may rely on them by then.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from gpufleet.files.regular import read_kernel_file
from gpufleet.localkube.processes.process_errors import ClusterError

MOUNTS = Path("/proc/self/mounts")
ROOT = Path("/sys/fs/cgroup")
"""Where version 2 is mounted if there is nothing else."""

PROCESSES = "cgroup.procs"
CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
CONTROLLERS = "cgroup.controllers"
SWITCHED_ON = "cgroup.subtree_control"
# Killed processes leave when the kernel has cleaned up behind them.
EMPTY_WAIT_S = 10.0
# Short: `down` waits for it.
POLL_EVERY_S = 0.02


def create(name: str) -> None:
    """Make the group everywhere."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        if hierarchy == ROOT and (hierarchy / CONTROLLERS).exists():
            _switch_on_controllers(hierarchy)
        group.mkdir(exist_ok=True)
        for file in CPUSET_FILES:
            # Of version 1: a new group may use nothing until it is told what.
            if (group / file).exists() and not _read(group / file).strip():
                (group / file).write_bytes(_read(hierarchy / file).encode())


def remove(name: str) -> None:
    """Remove the group and all below it everywhere; the processes still in there are killed."""
    limit_s = time.monotonic() + EMPTY_WAIT_S
    left = [group for hierarchy in hierarchies() if (group := hierarchy / name).exists()]
    while left:
        for group in left:
            for folder in _deepest_first(group):
                _empty(folder)
        left = [group for group in left if group.exists()]
        if left and time.monotonic() > limit_s:
            raise ClusterError(f"the control group {left[0]} cannot be removed: its {PROCESSES} is not empty")
        if left:
            time.sleep(POLL_EVERY_S)


def hierarchies() -> Iterator[Path]:
    """Where the control groups of this machine are mounted."""
    for line in _read(MOUNTS).splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind in {"cgroup", "cgroup2"} and "rw" in options.split(","):
            yield Path(place)


def _switch_on_controllers(hierarchy: Path) -> None:
    """Let groups use every controller that the machine has; ClusterError where that is refused."""
    there = _read(hierarchy / CONTROLLERS).split()
    on = _read(hierarchy / SWITCHED_ON).split()
    for controller in there:
        if controller in on:
            continue
        try:
            (hierarchy / SWITCHED_ON).write_text(f"+{controller}", encoding="ascii")
        except OSError as error:
            raise ClusterError(
                f"the controller {controller} cannot be switched on in {hierarchy}: {error.strerror}; inside "
                "a container, its processes must first be moved into a group below"
            ) from error


def _read(file: Path) -> str:
    return read_kernel_file(file).decode()


def _deepest_first(group: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(group, topdown=False):
        yield Path(folder)


def _empty(folder: Path) -> None:
    """Kill the processes of this group and remove it, as far as that goes at once."""
    with contextlib.suppress(OSError):
        for pid in _read(folder / PROCESSES).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    with contextlib.suppress(OSError):
        folder.rmdir()
