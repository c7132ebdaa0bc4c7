"""The real node of a running cluster, in the hands of commands and tests.

    node = cluster.node
    node.await_ready(); node.kubelet_socket_dir; node.restart_kubelet()

Its paths lead into the node's view from outside, so that a program of the machine (an agent under test) finds
the kubelet's sockets without entering the node.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_kernel_file
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.node import node_supervisor
from gpufleet.localkube.node.configuration import CONTAINERD_SOCKET, NodeSpec
from gpufleet.localkube.node.private_view import KUBELET
from gpufleet.localkube.processes import child, plan
from gpufleet.localkube.processes.process_errors import ClusterError, ProgramFailedError

# Containerd and the kubelet start meanwhile, on a machine that may be busy.
READY_WAIT_S = 120.0
RESTART_WAIT_S = 180.0
"""A kubelet that starts spends three seconds on each container that ended or was starting meanwhile."""

# Short: tests and `up` wait for it.
POLL_EVERY_S = 0.05
# A node is ready after about ten seconds, and looks in between take the processor from its programs.
READY_POLL_EVERY_S = 0.2
AGENT = "gpufleet-agent"
"""The name that our agent gives its process."""

# Programs of the node whose process ids are told.
PROGRAMS = ("containerd", "kubelet", AGENT)


class RealNode:
    """One real node; ``cluster_folder`` is its cluster's."""

    def __init__(self, cluster_folder: Path, spec: NodeSpec) -> None:
        self.cluster_folder = cluster_folder
        self.spec = spec
        self.name = spec.name

    @property
    def address(self) -> str:
        """Where its kubelet listens, which is also the gateway of its pods."""
        return self.spec.network.node_address

    @property
    def kubelet_socket_dir(self) -> Path:
        """The folder in which device plugins and the kubelet find each other."""
        return self.path(f"{KUBELET}/device-plugins")

    @property
    def pod_resources_socket(self) -> Path:
        """Where the kubelet tells which pod holds which devices."""
        return self.path(f"{KUBELET}/pod-resources/kubelet.sock")

    @property
    def cdi_dir(self) -> Path:
        """Where containerd looks for CDI specifications, as well as in the machine's /etc/cdi."""
        return self.path("/run/cdi")

    def path(self, inside: str) -> Path:
        """A path of the node's view, as it is reached from outside while the node runs."""
        return Path(f"/proc/{self._first()}/root{inside}")

    def programs(self) -> dict[str, int]:
        """The process ids of containerd, kubelet and agent, as far as they run."""
        first = node_supervisor.first_process(self.cluster_folder)
        return {} if first is None else {name: pid for name, pid in _children(first) if name in PROGRAMS}

    def pid(self, program: str) -> int:
        """The process id of containerd, kubelet or agent."""
        found = self.programs().get(program)
        if found is None:
            raise ClusterError(f"{program} of the node {self.name} does not run")
        return found

    def await_ready(self, api: Api, wait_s: float = READY_WAIT_S) -> None:
        """Return when the node is Ready; ProgramFailedError with the kubelet's log if it takes long."""
        limit_s = time.monotonic() + wait_s
        while not _is_ready(self._object(api)):
            if time.monotonic() > limit_s:
                log = self.cluster_folder / plan.LOGS / "kubelet.log"
                raise ProgramFailedError(
                    f"the node {self.name} was not ready within {wait_s:.0f} s; the end of its kubelet's "
                    f"log, {log}:\n{child.log_tail(log)}"
                )
            time.sleep(READY_POLL_EVERY_S)

    def restart(self, program: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End one of its programs by a signal and return when another runs; containers stay."""
        ended = self.pid(program)
        os.kill(ended, number)
        with contextlib.suppress(ProcessLookupError):
            # A stopped process hears nothing but SIGKILL.
            os.kill(ended, signal.SIGCONT)
        limit_s = time.monotonic() + RESTART_WAIT_S
        while self.programs().get(program, ended) == ended:
            if time.monotonic() > limit_s:
                raise ClusterError(f"{program} of the node {self.name} was not started again")
            time.sleep(POLL_EVERY_S)

    def restart_kubelet(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the kubelet and return when it answers again to device plugins; pods go on running."""
        self.restart("kubelet", number)
        limit_s = time.monotonic() + RESTART_WAIT_S
        while not _listens(self.kubelet_socket_dir / "kubelet.sock"):
            if time.monotonic() > limit_s:
                log = self.cluster_folder / plan.LOGS / "kubelet.log"
                raise ProgramFailedError(
                    f"the kubelet of the node {self.name} did not come back within {RESTART_WAIT_S:.0f} s; "
                    f"the end of its log, {log}:\n{child.log_tail(log)}"
                )
            time.sleep(POLL_EVERY_S)

    def import_images(self, archive: Path) -> None:
        """Put the images of a docker or OCI archive where pods find them, under the names that it gives."""
        socket_outside = self.path(CONTAINERD_SOCKET)
        command = [self.spec.programs["ctr"], f"--address={socket_outside}", "--namespace=k8s.io"]
        command += ["images", "import", str(archive)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"{archive} could not be imported: {done.stderr.strip()}")

    @contextmanager
    def kubelet_stopped(self) -> Iterator[None]:
        """A block in which the kubelet does nothing; after it a new one sees all that happened at once."""
        os.kill(self.pid("kubelet"), signal.SIGSTOP)
        try:
            yield
        finally:
            self.restart_kubelet()

    def _first(self) -> int:
        first = node_supervisor.first_process(self.cluster_folder)
        if first is None:
            raise ClusterError(f"the node {self.name} does not run")
        return first

    def _object(self, api: Api) -> Object:
        status, body = api.request("GET", f"/api/v1/nodes/{self.name}")
        found: Object = msgspec.json.decode(body) if status == 200 else {}
        return found


def _is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _listens(path: Path) -> bool:
    """Whether a process takes connections on this socket; the file alone may be left from a dead one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


def _children(parent: int) -> Iterator[tuple[str, int]]:
    """Name and id of each child of a process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a process stands in parentheses, and may have some itself.
            before, _, after = read_kernel_file(stat).decode("utf-8", "replace").rpartition(")")
            state, its_parent = after.split()[:2]
            if int(its_parent) == parent and state != "Z":
                yield before.partition("(")[2], int(stat.parent.name)
