"""Process 1 of a real node: makes its view, runs containerd, kubelet and agent, and buries orphans.

``python -m gpufleet.localkube.node.first_process FOLDER``, started by `node_supervisor` in a new namespace of
processes. When it dies the kernel kills every process of the node, also the shims of containers, which have
no other parent, and all in the containers. It starts containerd and the kubelet again when they end, as the
machine's init system would.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpufleet.files.regular import read_kernel_file
from gpufleet.localkube.node import agent_program, configuration, images, private_view
from gpufleet.localkube.processes.plan import Program
from gpufleet.localkube.processes.process_errors import ClusterError
from gpufleet.localkube.processes.supervised_program import SupervisedProgram

LEASH = 0
"""Standard input: it ends when the supervisor does."""

# How long a dead program is noticed late; signals wake it at once.
REST_S = 0.5
# While something starts or waits to be started again.
POLL_EVERY_S = 0.05
# Its first start makes its database.
CONTAINERD_WAIT_S = 60.0
# A kubelet's restart is what many wait for; a second would be most of it.
PAUSE_S = 0.1


def main(cluster_folder: Path) -> None:
    """Run the node's programs until `node_supervisor` lets go of the leash."""
    if _parent_has_ended(0.0):
        return
    folder = cluster_folder / configuration.FOLDER
    spec = configuration.read_spec(cluster_folder)
    if spec is None:
        raise SystemExit(f"{folder}: no node to run")
    private_view.enter(folder)
    snapshotter = "overlayfs" if private_view.can_overlay(folder / "overlay-test") else "native"
    settings = folder / f"{snapshotter}-{configuration.CONTAINERD_FILE}"
    programs = (
        Program("containerd", (spec.programs["containerd"], f"--config={settings}")),
        Program("kubelet", (spec.programs["kubelet"], *configuration.kubelet_flags(folder))),
    )
    containerd, kubelet = (SupervisedProgram(program, cluster_folder, PAUSE_S) for program in programs)
    containerd.start()
    for archive in (images.ARCHIVE, images.DRIVERS_ARCHIVE):
        _import_images(spec.programs["ctr"], folder / archive, containerd)
    kubelet.start()
    _keep([containerd, kubelet], cluster_folder)


def _import_images(ctr: str, archive: Path, containerd: SupervisedProgram) -> None:
    """Put our images where the kubelet finds them, as soon as containerd answers."""
    command = [ctr, f"--address={configuration.CONTAINERD_SOCKET}", "--namespace=k8s.io"]
    command += ["images", "import", "--no-unpack", str(archive)]
    limit_s = time.monotonic() + CONTAINERD_WAIT_S
    while True:
        if containerd.child is not None and (code := containerd.child.exit_code) is not None:
            raise containerd.child.failed(f"ended with {code} while the node was starting")
        if Path(configuration.CONTAINERD_SOCKET).exists():
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            if time.monotonic() > limit_s:
                raise ClusterError(f"the images could not be imported: {done.stderr.strip()}")
        if time.monotonic() > limit_s and containerd.child is not None:
            raise containerd.child.failed(f"did not answer within {CONTAINERD_WAIT_S:.0f} s")
        if _parent_has_ended(POLL_EVERY_S):
            raise SystemExit(0)


def _keep(programs: list[SupervisedProgram], cluster_folder: Path) -> None:
    """Start again what ends and bury orphans, woken by each end of a process.

    The node's agent joins them as soon as its command is written.
    """
    # The end of a child writes into the pipe, so that `select` wakes at once.
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    agent: Program | None = None
    while True:
        _reap_orphans({program.child.pid for program in programs if program.child is not None})
        if agent is None and (agent := agent_program.read_program(cluster_folder)) is not None:
            programs.append(SupervisedProgram(agent, cluster_folder, PAUSE_S))
            programs[-1].start()
        for program in programs:
            program.restart_if_ended()
        pausing = any(
            program.child is not None and program.child.exit_code is not None for program in programs
        )
        # The leash is cut when the process that holds its other end has ended.
        readable, _, _ = select.select([LEASH, woken], [], [], POLL_EVERY_S if pausing else REST_S)
        if LEASH in readable:
            return
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 1000)


def _reap_orphans(ours: set[int]) -> None:
    """Collect dead processes that outlived their parents; our own children are collected where they were
    started.
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a process stands in parentheses, and may have some itself.
            fields = read_kernel_file(stat).decode("utf-8", "replace").rpartition(")")[2].split()
            pid = int(stat.parent.name)
            if fields[0] == "Z" and int(fields[1]) == os.getpid() and pid not in ours:
                os.waitpid(pid, os.WNOHANG)


def _parent_has_ended(wait_s: float) -> bool:
    return bool(select.select([LEASH], [], [], wait_s)[0])


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (ClusterError, OSError) as error:
        raise SystemExit(str(error)) from error
