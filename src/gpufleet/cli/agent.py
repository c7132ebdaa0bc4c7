"""``gpufleet agent``: run the agent of one node."""

import click

from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import KUBECONFIG, InputFile, OneOf, OwnPath, Real

PATH = OwnPath("a path")
PEM = InputFile("a file in PEM")
MACHINE = InputFile("the description of a machine")
COUNTERS = InputFile("counters as dcgm-exporter's CSV")
METRICS = (
    "counters",
    "hostname_label",
    "old_metric_labels",
    "pod_uid_label",
    "pod_label",
    "virtual_gpus",
    "replace_blanks",
    "hpc_job_mapping",
)
"""The options that say how metrics look."""


@click.command(name="agent")
@click.option(
    "--node-name", "node", envvar="NODE_NAME", required=True, help="The Node it is on.  [env: NODE_NAME]"
)
@click.option(
    "--kubeconfig", type=KUBECONFIG, help="Instead of KUBECONFIG, ~/.kube/config, or the pod's own account."
)
@click.option("--context", default="", help="The kubeconfig's context to use.")
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    default="gpufleet-system",
    show_default=True,
    help="Where the node's labels are handed to Node Feature Discovery.  [env: POD_NAMESPACE]",
)
@click.option(
    "--machine-type-file",
    type=PATH,
    default="/sys/class/dmi/id/product_name",
    show_default=True,
    help="Says what machine this is, for a label.",
)
@click.option(
    "--config",
    type=PATH,
    help="How the GPUs are shared: a file, or a folder of them, read again when edited.",
)
@click.option("--config-map", default="", help="The same from the API: NAMESPACE/NAME of a ConfigMap.")
@click.option(
    "--nvidia-config-map",
    multiple=True,
    metavar="NAMESPACE/NAME",
    help="Where NVIDIA's guides put one: it counts if it exists, without --config and --config-map, on a "
    "node without another device plugin for NVIDIA's GPUs.",
)
@click.option(
    "--nvidia-config-map-every-s",
    type=Real(0, 3_600),
    default=45.0,
    show_default=True,
    help="How often each of these is looked for until it exists; with 0 each is watched from the start.",
)
@click.option("--config-default", default="", help="The file of the folder for nodes whose label names none.")
@click.option(
    "--mps-root", type=PATH, default="/run/nvidia/mps", show_default=True, help="Where pipes of MPS are."
)
@click.option(
    "--mps-exclusive-process",
    is_flag=True,
    help="Set the compute mode of cards that are shared by MPS, a setting of the card.",
)
@click.option(
    "--mig-layouts",
    is_flag=True,
    help="Cut cards into MIG instances as the Node's annotation gpufleet.io/mig-layouts says.",
)
@click.option(
    "--mig-config-file",
    type=PATH,
    help="Cut cards as the Node's label nvidia.com/mig.config says too, by this file of mig-parted.",
)
@click.option(
    "--simulated",
    type=MACHINE,
    help="A machine described in this file, in place of the real GPUs.",
)
@click.option(
    "--metrics-address",
    default=":9400",
    show_default=True,
    help="Where /metrics, /healthz and /readyz are served; port 0 takes a free one.",
)
@click.option(
    "--metrics-certificate",
    type=PEM,
    metavar="FILE",
    help="Serve HTTPS with this PEM certificate; read again when it changes.",
)
@click.option("--metrics-key", type=PEM, metavar="FILE", help="The certificate's key as PEM.")
@click.option("--kubelet-root", type=PATH, default="/var/lib/kubelet", show_default=True)
@click.option("--cdi-folder", type=PATH, default="/var/run/cdi", show_default=True)
@click.option(
    "--driver-root",
    default="/",
    show_default=True,
    help="The machine's folder with NVIDIA's driver; a pod sees it at /driver-root.",
)
@click.option(
    "--state-folder",
    type=PATH,
    default="/var/lib/gpufleet",
    show_default=True,
    help="What has to outlive this process.",
)
@click.option(
    "--sample-every-s",
    type=Real(1, 86_400),
    default=10.0,
    show_default=True,
    help="How often each GPU is asked for its readings.",
)
@click.option(
    "--accounting/--no-accounting",
    default=False,
    show_default=True,
    help="Ask for the processes on each GPU, for metrics of shares; needs the host's process ids.",
)
@click.option(
    "--require-grant/--no-require-grant",
    default=False,
    show_default=True,
    help="Whole GPUs, replicas and MIG instances only for pods that gpufleet's scheduler placed.",
)
@click.option(
    "--device-list-strategy",
    type=OneOf(["cdi-cri", "cdi-annotations", "volume-mounts", "envvar", "as-configured"]),
    multiple=True,
    default=("cdi-cri",),
    show_default=True,
    help="How containers get devices; as-configured: as a sharing config of NVIDIA's says.",
)
@click.option(
    "--dra-cards",
    default="none",
    show_default=True,
    metavar="CARDS",
    help="Cards for resource claims (DRA) and not for the device plugin: none, all, or indexes and UUIDs.",
)
@click.option(
    "--dra-mig-on-demand",
    is_flag=True,
    help="Cut cards for resource claims (DRA) into MIG instances as claims ask for them.",
)
@click.option(
    "--data-folder",
    type=PATH,
    multiple=True,
    metavar="FOLDER",
    help="A folder with models or datasets, such as a cache of Hugging Face's hub; NodeData tells of them.",
)
@click.option(
    "--data-store",
    multiple=True,
    metavar="FOLDER|ADDRESS",
    help="From where models and datasets are copied before work that reads them starts here: a folder, or "
    "a server as https://, s3+https://, hf+https:// or oci+https://HOST/PATH.",
)
@click.option(
    "--data-redirect",
    multiple=True,
    metavar="ADDRESS",
    help="A further server to which a store may lead, as https://HOST.",
)
@click.option(
    "--data-certificate-authority",
    type=PEM,
    metavar="FILE",
    help="PEM certificates by which stores are known too, beside the system's.",
)
@click.option(
    "--data-cache",
    type=PATH,
    metavar="FOLDER",
    help="Where they are copied to; NodeData tells of it too.",
)
@click.option(
    "--data-copy-mib-per-s",
    type=Real(1, 1_000_000),
    default=500.0,
    show_default=True,
    help="The most that copies take of the disks and the network.",
)
@click.option(
    "--runtime-socket",
    type=PATH,
    metavar="SOCKET",
    help="The container runtime's socket (CRI): NodeData then names the node's large images.",
)
@click.option(
    "--pull-registry",
    multiple=True,
    metavar="HOST[/PATH]",
    help="Images from here are pulled before work that runs them starts here.",
)
@click.option(
    "--counters",
    type=COUNTERS,
    metavar="FILE",
    help="The counters to serve, in dcgm-exporter's CSV.",
)
@click.option(
    "--hostname-label",
    type=OneOf(["Hostname", "hostname", "none"]),
    default="Hostname",
    show_default=True,
    help="The label for the node's name.",
)
@click.option(
    "--old-metric-labels", is_flag=True, help="Labels pod_name, pod_namespace, container_name, uuid."
)
@click.option("--pod-uid-label", is_flag=True, help="The pod's UID as a label.")
@click.option("--pod-label", multiple=True, metavar="KEY", help="This label of pods as a label of series.")
@click.option("--virtual-gpus", is_flag=True, help="A series for each holder of a shared GPU.")
@click.option("--replace-blanks", is_flag=True, help="Model names with dashes in place of blanks.")
@click.option(
    "--hpc-job-mapping",
    type=PATH,
    metavar="FOLDER",
    help="Where a batch system tells which job is on which GPU.",
)
@log_options
def command(**options: object) -> int:
    """Serve the GPUs of one node: to its kubelet, to the scheduler, to monitoring.

    Runs until it is told to end. A GPU, a driver or a server that fails is waited for.
    """
    from gpufleet.agent.process import run_process
    from gpufleet.agent.settings import AgentSettings, MetricsSettings

    metrics = MetricsSettings(**{name: options.pop(name) for name in METRICS})  # type: ignore[arg-type]
    return run_process(AgentSettings(metrics=metrics, **options))  # type: ignore[arg-type]
