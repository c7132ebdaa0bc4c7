"""What the agent is told by its flags and its environment; ``cli.agent`` reads them."""

from pathlib import Path

import msgspec

from gpufleet.kube.meanings.image_names import whole_image_name
from gpufleet.model.model_errors import InputError

# As NVIDIA's device plugin names them; the first is ours where none is said.
STRATEGIES = ("cdi-cri", "cdi-annotations", "volume-mounts", "envvar")
AS_CONFIGURED = "as-configured"


class MetricsSettings(msgspec.Struct, frozen=True):
    """Which series are served and how they are labelled; docs/metrics.md has the table."""

    counters: Path | None = None
    hostname_label: str = "Hostname"
    old_metric_labels: bool = False
    pod_uid_label: bool = False
    pod_label: tuple[str, ...] = ()
    virtual_gpus: bool = False
    replace_blanks: bool = False
    hpc_job_mapping: Path | None = None


class AgentSettings(msgspec.Struct, frozen=True):
    """The flags of ``gpufleet agent``.

    ``namespace`` is where a NodeFeature with the node's labels is kept, if there is Node Feature Discovery.
    ``simulated`` is the description of a machine that stands in place of the vendors' libraries.
    ``accounting`` asks the drivers for the processes on each GPU, which needs the host's process ids.
    ``config`` is a file, or a folder of them, among which the node's label or ``config_default`` chooses;
    ``config_map`` (namespace/name) is read from the API in its place. ``nvidia_config_map`` has those that
    count without either, where they exist and no other device plugin for NVIDIA's GPUs serves the node; each
    is looked for every ``nvidia_config_map_every_s`` until it is there, or followed from the start with 0.
    ``driver_root`` is the machine's folder in which NVIDIA's driver is installed.
    ``require_grant`` gives whole devices to pods with a grant alone. ``device_list_strategy`` is how
    containers get devices; ``as-configured`` follows what the sharing configuration says.
    ``dra_cards`` are the cards that go to resource claims and not to the device plugin.
    ``dra_mig_on_demand`` has those of them that can be cut offered in parts, which are made for their claims.
    ``data_folder`` are folders with models and datasets, which NodeData then names. From ``data_store``,
    folders and servers, is copied to ``data_cache`` what work that will start on the node reads;
    ``data_redirect`` are servers to which these may lead, and ``data_certificate_authority`` has certificates
    by which they are known beside the system's. Through ``runtime_socket`` the container runtime is asked for
    the node's images, and images of ``pull_registry`` are pulled before work starts.
    ``metrics_certificate`` and ``metrics_key`` make the server of metrics and probes speak HTTPS.
    ``mig_layouts`` has cards cut as the Node's annotation says, and ``mig_config_file``, a file of
    mig-parted, also as its label ``nvidia.com/mig.config`` says.
    ``mps_exclusive_process`` allows the compute mode of GPUs to be set while they are shared by MPS.
    """

    node: str
    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = "gpufleet-system"
    config: Path | None = None
    config_map: str = ""
    nvidia_config_map: tuple[str, ...] = ()
    nvidia_config_map_every_s: float = 45.0
    config_default: str = ""
    mps_root: Path = Path("/run/nvidia/mps")
    mps_exclusive_process: bool = False
    simulated: Path | None = None
    metrics_address: str = ":9400"
    metrics_certificate: Path | None = None
    metrics_key: Path | None = None
    kubelet_root: Path = Path("/var/lib/kubelet")
    cdi_folder: Path = Path("/var/run/cdi")
    machine_type_file: Path = Path("/sys/class/dmi/id/product_name")
    driver_root: str = "/"
    state_folder: Path = Path("/var/lib/gpufleet")
    sample_every_s: float = 10.0
    accounting: bool = False
    require_grant: bool = False
    device_list_strategy: tuple[str, ...] = ("cdi-cri",)
    dra_cards: str = "none"
    dra_mig_on_demand: bool = False
    mig_layouts: bool = False
    mig_config_file: Path | None = None
    data_folder: tuple[Path, ...] = ()
    data_store: tuple[str, ...] = ()
    data_redirect: tuple[str, ...] = ()
    data_certificate_authority: Path | None = None
    data_cache: Path | None = None
    data_copy_mib_per_s: float = 500.0
    runtime_socket: Path | None = None
    pull_registry: tuple[str, ...] = ()
    metrics: MetricsSettings = MetricsSettings()
    log_level: str = "info"
    log_format: str | None = None

    @property
    def strategies(self) -> tuple[str, ...] | None:
        """How containers get devices; None where the sharing configuration says. Raises InputError."""
        if AS_CONFIGURED not in self.device_list_strategy:
            return tuple(dict.fromkeys(self.device_list_strategy)) or ("cdi-cri",)
        if len(set(self.device_list_strategy)) > 1:
            field, expected = "--device-list-strategy", f"{AS_CONFIGURED} alone, or none of it"
            raise InputError("a way beside the configured ones", field=field, expected=expected)
        return None

    @property
    def data_read(self) -> tuple[Path, ...]:
        """The folders of which NodeData tells, the cache among them. Raises InputError."""
        if (self.data_cache is None) != (not self.data_store):
            expected = "both --data-store and --data-cache, or neither"
            raise InputError("copies need a source and a place", field="--data-store", expected=expected)
        cache = () if self.data_cache is None else (self.data_cache,)
        return tuple(dict.fromkeys((*self.data_folder, *cache)))

    @property
    def pulls(self) -> bool:
        """Whether images are pulled before work starts. Raises InputError."""
        if self.pull_registry and self.runtime_socket is None:
            raise InputError(
                "pulls go through the runtime", field="--pull-registry", expected="--runtime-socket beside it"
            )
        for one in self.pull_registry:
            if whole_image_name(f"{one}/image") != (f"{one}/image:latest", ""):
                expected = "HOST or HOST/PATH, such as registry.example.com/team"
                raise InputError("no registry", field="--pull-registry", value=one, expected=expected)
        return bool(self.pull_registry)

    @property
    def device_plugins(self) -> Path:
        """Where the kubelet and device plugins find each other."""
        return self.kubelet_root / "device-plugins"

    @property
    def pod_resources(self) -> Path:
        """The socket of the kubelet's pod resources API."""
        return self.kubelet_root / "pod-resources/kubelet.sock"
