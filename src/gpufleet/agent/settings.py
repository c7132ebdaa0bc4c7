"""What the agent is told by its flags and its environment; ``cli.agent`` reads them."""

from pathlib import Path

import msgspec


class AgentSettings(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet agent``.

    ``simulated`` is the description of a machine that stands in place of the vendors' libraries.
    ``accounting`` asks the drivers for the processes on each GPU, which needs the host's process ids.
    """

    node: str
    kubeconfig: Path | None = None
    context: str = ""
    config: Path | None = None
    simulated: Path | None = None
    metrics_address: str = ":9400"
    kubelet_root: Path = Path("/var/lib/kubelet")
    cdi_folder: Path = Path("/var/run/cdi")
    state_folder: Path = Path("/var/lib/gpufleet")
    sample_every_s: float = 10.0
    accounting: bool = False
    log_level: str = "info"
    log_format: str | None = None

    @property
    def device_plugins(self) -> Path:
        """Where the kubelet and device plugins find each other."""
        return self.kubelet_root / "device-plugins"

    @property
    def pod_resources(self) -> Path:
        """The socket at which the kubelet tells who holds which devices."""
        return self.kubelet_root / "pod-resources/kubelet.sock"
