"""Runs the real node of one cluster from outside, and clears away what is left of it, whichever process died.

``python -m gpufleet.localkube.node.node_supervisor FOLDER LOCK`` is a program of the cluster on a leash of
its `supervisor`. Asked to end (SIGTERM), it kills the node's first process, and with it every process and
mount of the node, removes bridge and control group, and leaves the rest to the supervisor. If the leash is
cut without a word the supervisor was killed: then it removes the cluster's folder and lock too. While it
clears it holds lock and network, so no cluster starts anew in the middle of it. If it is killed itself, the
kernel kills the node, and `clear` is done by the next command that is at the cluster (`persistent`).
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import msgspec

from gpufleet.files.regular import read_regular
from gpufleet.localkube.node import cgroups, configuration, linux, network
from gpufleet.localkube.node.configuration import NodeSpec
from gpufleet.localkube.node.network import HeldNetwork
from gpufleet.localkube.processes import plan
from gpufleet.localkube.processes.plan import Process
from gpufleet.localkube.processes.process_errors import ClusterError

LEASH = 0
"""Standard input: it ends when the supervisor does."""

FIRST_PROCESS_FILE = "first-process.json"
# Until mounts and control groups of the node are gone.
REMOVED_WAIT_S = 20.0
# Short: `down` waits for it.
POLL_EVERY_S = 0.05


class AskedNode(Exception):  # noqa: N818  no error: the way out of the wait
    """A signal asks for the end."""


def main(cluster_folder: Path, lock: Path) -> None:
    """Run the node until asked to end, or until the supervisor is gone."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ask)
    spec = configuration.read_spec(cluster_folder)
    if spec is None:
        raise SystemExit(f"{cluster_folder}: no node to run")
    first: subprocess.Popen[bytes] | None = None
    try:
        _clear_outside(spec)
        cgroups.create(spec.network.control_group)
        network.create_bridge(spec.network)
        first = _first_process(cluster_folder)
        alone = _wait(first)
    except AskedNode:
        alone = False
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if first is not None:
            first.kill()
            first.wait()
        _clear_outside(spec)
    if alone:
        _remove_cluster(cluster_folder, lock)


def clear(cluster_folder: Path) -> None:
    """Clear away a node after its node_supervisor was killed too; nothing to do for a cluster without one.

    ClusterError if this user may not.
    """
    spec = configuration.read_spec(cluster_folder)
    if spec is None:
        return
    held = HeldNetwork.take(spec.network)
    if held is None:
        # Its next holder has cleared.
        return
    try:
        _clear_outside(spec)
    except PermissionError as error:
        raise ClusterError(f"a real node is left that only root may remove: {error}") from error
    finally:
        held.release()


def first_process(cluster_folder: Path) -> int | None:
    """The id of the node's first process, None if it does not run."""
    try:
        content = read_regular(
            cluster_folder / configuration.FOLDER / FIRST_PROCESS_FILE, plan.OWN_FILE_BYTES_MAX
        )
        written = msgspec.json.decode(content, type=Process)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return written.pid if plan.started_ticks(written.pid) == written.started_ticks else None


def _ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  as signals are handled
    raise AskedNode


def _first_process(cluster_folder: Path) -> "subprocess.Popen[bytes]":
    """Start the node's first process in a new namespace of processes."""
    command = (sys.executable, "-m", "gpufleet.localkube.node.first_process", str(cluster_folder))
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    linux.unshare(linux.CLONE_NEWPID)
    try:
        # It inherits nothing that the supervisor holds: only the process that clears up may hold that.
        first = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=linux.die_with_parent,  # noqa: PLW1509  one system call, nothing that can lock
        )
    finally:
        linux.join(own, linux.CLONE_NEWPID)
        os.close(own)
    written = Process(first.pid, plan.started_ticks(first.pid) or 0)
    plan.write(cluster_folder / configuration.FOLDER, FIRST_PROCESS_FILE, written)
    return first


def _wait(first: "subprocess.Popen[bytes]") -> bool:
    """True when the leash was cut; ClusterError when the first process ended by itself."""
    ended = os.pidfd_open(first.pid)
    try:
        readable, _, _ = select.select([LEASH, ended], [], [])
    finally:
        os.close(ended)
    if LEASH in readable:
        return True
    raise ClusterError(f"the node's first process ended with {first.wait()}")


def _clear_outside(spec: NodeSpec) -> None:
    cgroups.remove(spec.network.control_group)
    network.remove_bridge(spec.network)


def _remove_cluster(folder: Path, lock: Path) -> None:
    """What the supervisor does at its end. Its other programs die in this moment and may still write."""
    limit_s = time.monotonic() + REMOVED_WAIT_S
    while folder.exists() and time.monotonic() < limit_s:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            time.sleep(POLL_EVERY_S)
    with contextlib.suppress(FileNotFoundError):
        lock.unlink()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except ClusterError as error:
        raise SystemExit(str(error)) from error
