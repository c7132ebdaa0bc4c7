"""`gpufleet agent` as a process of the test beside a real node, to be killed, kept away and started anew.

    agent = AgentProcess(cluster, folder, machine, sharing)
    with agent.away(): ...        dead at once, back at the end

The node's own registrar would start it again at once, and ever later. It finds the kubelet by the node's view
of files; with ``boot_id`` it reads another one than the machine's, in a view of its own.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gpufleet.agent.kubelet_services import CHECKPOINT
from gpufleet.localkube.agent_identity import agent_kubeconfig
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.private_view import KUBELET
from tests.conventions.project import ROOT
from tests.localkube.real_node import awaited

BOOT_ID = "/proc/sys/kernel/random/boot_id"
REGISTERED = "registered with the kubelet"


class AgentProcess:
    """The agent of a cluster's real node. ``machine`` and ``sharing`` are the texts of its files."""

    def __init__(
        self, cluster: LocalCluster, folder: Path, machine: str, sharing: str, *options: str
    ) -> None:
        self._options = options
        self.folder = folder
        self.state = folder / "state"
        self.boot_id: Path | None = None
        self.kubeconfig = agent_kubeconfig(cluster, cluster.node.name)
        self._node = cluster.node
        self._log = folder / "agent.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.describe(machine)
        self._sharing = folder / "sharing.yaml"
        self._sharing.write_text(sharing, encoding="utf-8")

    @property
    def checkpoint(self) -> Path:
        """Its file of open calls."""
        return self.state / CHECKPOINT

    @property
    def pid(self) -> int:
        """Its process, while it runs."""
        assert self._process is not None
        assert self._process.poll() is None, self.story()
        return self._process.pid

    def describe(self, machine: str) -> None:
        """The machine that its next process finds."""
        (self.folder / "gpus.yaml").write_text(machine, encoding="utf-8")

    def start(self) -> None:
        """A new process."""
        command = [
            *(sys.executable, "-m", "gpufleet", "agent"),
            f"--node-name={self._node.name}",
            f"--kubeconfig={self.kubeconfig}",
            f"--simulated={self.folder / 'gpus.yaml'}",
            f"--state-folder={self.state}",
            f"--config={self._sharing}",
            f"--kubelet-root={self._node.path(KUBELET)}",
            f"--cdi-folder={self._node.cdi_dir}",
            "--metrics-address=127.0.0.1:0",
            "--log-format=json",
            *self._options,
        ]
        if self.boot_id is not None:
            script = f'mount --bind "$0" {BOOT_ID} && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", script, str(self.boot_id), *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """Dead in this block; after it a new one is known to the kubelet."""
        self.kill()
        known = self.registrations()
        try:
            yield
        finally:
            self.start()
        self.await_registrations(known + 2)

    def registrations(self) -> int:
        """How often it has made a resource known to the kubelet; a line may tell of several."""
        lines = self.story(None).splitlines() if self._log.exists() else []
        told = [msgspec.json.decode(line) for line in lines if REGISTERED in line]
        return sum(len(one["resources"]) for one in told)

    def await_registrations(self, count: int) -> None:
        """Return when it was so often; there are two resources."""
        awaited("the agent is registered", lambda: self.registrations() >= count, self.story)

    def story(self, characters: int | None = 4000) -> str:
        """The end of its log."""
        return self._log.read_text(encoding="utf-8")[-(characters or 0) :]
