"""Clusters that outlive the command that made them: found by name, looked at, and removed without a trace.

The lock beside a cluster's folder tells whether it runs: its supervisor holds the lock for as long as it
lives. A folder without a held lock is what a power cut or a killed supervisor left, and is simply removed.
"""

import contextlib
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from gpufleet.localkube.cluster import LocalCluster, wait_for_exit
from gpufleet.localkube.node import configuration, node_supervisor
from gpufleet.localkube.node.real_node import RealNode
from gpufleet.localkube.processes import plan
from gpufleet.localkube.processes.folders import cluster_folder, clusters_folder, is_locked, lock_of, try_lock
from gpufleet.localkube.processes.plan import Process
from gpufleet.localkube.processes.process_errors import ClusterError
from gpufleet.model.model_errors import InputError

# A supervisor that is asked to end stops its programs first, each in its time.
ASKED_WAIT_S = 60.0
# The kernel ends its programs with it.
KILLED_WAIT_S = 10.0
# Between its lock and its list of processes a supervisor does next to nothing.
WRITTEN_WAIT_S = 5.0
# Short: people wait for it.
POLL_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class State:
    """What there is of a cluster: ``running`` means that its supervisor lives."""

    name: str
    folder: Path
    running: bool
    kubernetes: str
    url: str
    programs: tuple[tuple[str, int, int, bool], ...]
    """Name, process id, restarts, and whether it is alive."""

    real_node: RealNode | None = None


def names() -> list[str]:
    """The names of all clusters, running or left over."""
    try:
        return sorted(path.name for path in clusters_folder().iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def existing(name: str) -> Path:
    """The folder of a cluster that is there; InputError with the names of those that are."""
    folder = cluster_folder(name)
    if folder.is_dir():
        return folder
    there = ", ".join(names())
    expected = f"one of {there}" if there else "a cluster; `gpufleet up` starts one"
    raise InputError("there is no such local cluster", field="--name", value=name, expected=expected)


def running(name: str) -> LocalCluster:
    """The cluster of this name; InputError if there is none, ClusterError if it does not run."""
    folder = existing(name)
    if not is_locked(lock_of(folder)):
        raise ClusterError(
            f"the cluster {name} does not run any more; `gpufleet up --name {name}` starts it anew, "
            f"`gpufleet down --name {name}` removes what is left"
        )
    return LocalCluster.at(folder)


def state(name: str) -> State:
    """What there is of this cluster now."""
    folder = existing(name)
    told = plan.read_plan(folder)
    written = plan.read_processes(folder)
    spec = configuration.read_spec(folder)
    programs = () if written is None else tuple(written.programs.items())
    return State(
        name=name,
        folder=folder,
        running=is_locked(lock_of(folder)),
        kubernetes="" if told is None else told.kubernetes,
        url="" if told is None else f"https://127.0.0.1:{told.port}",
        programs=tuple((program, one.pid, one.restarts, _alive(one)) for program, one in programs),
        real_node=None if spec is None else RealNode(folder, spec),
    )


def remove(name: str) -> None:
    """End whatever runs for this cluster and remove its folder; returns when all of it is gone."""
    folder = cluster_folder(name)
    lock = lock_of(folder)
    if is_locked(lock):
        _end_supervisor(name, folder)
    remove_left_over(name)


def remove_left_over(name: str) -> bool:
    """Remove a cluster that does not run any more; whether there was one.

    ClusterError if it runs after all.
    """
    folder = cluster_folder(name)
    lock = lock_of(folder)
    if not folder.exists() and not lock.exists():
        return False
    held = try_lock(lock)
    if held is None:
        raise ClusterError(f"the cluster {name} is running; `gpufleet down --name {name}` ends it")
    try:
        _kill_programs(folder)
        node_supervisor.clear(folder)
        there = folder.exists()
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise ClusterError(f"{folder} could not be removed; are its files another user's?")
        lock.unlink(missing_ok=True)
    finally:
        os.close(held)
    return there


def _end_supervisor(name: str, folder: Path) -> None:
    """Ask the supervisor to end; kill it where it does not, which kills its programs too."""
    limit_s = time.monotonic() + WRITTEN_WAIT_S
    while (written := plan.read_processes(folder)) is None and is_locked(lock_of(folder)):
        if time.monotonic() > limit_s:
            raise ClusterError(f"another command is just at the cluster {name}; try again when it is done")
        time.sleep(POLL_EVERY_S)
    if written is None:
        return
    if not _alive(written.supervisor):
        _await_cleared(folder)
        return
    pid = written.supervisor.pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        # A stopped process would not hear the other.
        os.kill(pid, signal.SIGCONT)
    if wait_for_exit(pid, ASKED_WAIT_S):
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if not wait_for_exit(pid, KILLED_WAIT_S):
        raise ClusterError(f"the supervisor of the cluster {name}, process {pid}, cannot be ended")


def _await_cleared(folder: Path) -> None:
    """A killed supervisor's real node is just being cleared away: wait until that is done."""
    limit_s = time.monotonic() + ASKED_WAIT_S
    while is_locked(lock_of(folder)) and time.monotonic() < limit_s:
        time.sleep(POLL_EVERY_S)


def _kill_programs(folder: Path) -> None:
    """Kill what a supervisor's death should have killed; never a process that only has the same id."""
    written = plan.read_processes(folder)
    for one in () if written is None else written.programs.values():
        if _alive(one):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
            wait_for_exit(one.pid, KILLED_WAIT_S)


def _alive(process: Process) -> bool:
    return plan.started_ticks(process.pid) == process.started_ticks
