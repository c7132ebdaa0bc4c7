"""``gpufleet up``: a real Kubernetes control plane with simulated GPU nodes on this machine.

What is for a shell (the export line) goes to standard output, all else to standard error, so that
``eval "$(gpufleet up)"`` works.
"""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.parameters import InputFolder, Whole

if TYPE_CHECKING:
    from gpufleet.localkube.control_plane import Component
    from gpufleet.localkube.metrics_apis import MetricsPorts

DEFAULT_NAME = "local"
URL_FILE = "web-url"
"""In the cluster's folder, which its owner alone may enter."""

URL_BYTES_MAX = 4096
"""An address and a token have some hundred bytes."""

PAGE_S = 20.0
"""The page's server starts within a second or two on an idle machine."""


@click.command(name="up")
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Name of the cluster; several may run.")
@click.option("--nodes", type=Whole(0, 10_000), default=20, show_default=True, help="Simulated nodes.")
@click.option("--gpus-per-node", type=Whole(0, 64), default=8, show_default=True, help="GPUs of each node.")
@click.option("--gpu-model", default="H100-80GB", show_default=True, help="Model of the GPUs.")
@click.option(
    "--mig",
    metavar="PROFILES",
    help="Cut each GPU into MIG instances, such as 7x1g.10gb or 3g.40gb,2g.20gb.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="NODES:MODEL[:GPUS[:PROFILES]]",
    help="Nodes of one kind, instead of the four options above; may be given several times. "
    "Any vendor's model will do: 10:H100-80GB, 4:A100-80GB:8:7x1g.10gb, 2:MI300X, 3:none.",
)
@click.option(
    "--kubernetes",
    metavar="VERSION",
    help="Version of Kubernetes.  [default: the one that gpufleet is tested on]",
)
@click.option(
    "--binaries",
    type=InputFolder("a folder with the programs of Kubernetes"),
    metavar="DIR",
    help="Folder with kube-apiserver and the others, instead of finding, fetching or building them.",
)
@click.option(
    "--real-node", is_flag=True, help="A real node beside the simulated ones, which runs pods. Needs root."
)
@click.option(
    "--claim-gpus",
    type=Whole(0, 64),
    default=0,
    show_default=True,
    help="Further GPUs of the real node, for resource claims (DRA): they are cut as claims ask.",
)
@click.option("--quiet", is_flag=True, help="No progress: the export line and errors only.")
@click.option("--no-scheduler", is_flag=True, help="Leave gpufleet's scheduler out, to run one yourself.")
@click.option("--no-web", is_flag=True, help="Leave the page of `gpufleet web` out.")
@click.option(
    "--metrics-apis",
    "with_metrics_apis",
    is_flag=True,
    help="Serve the metrics APIs too, by which a HorizontalPodAutoscaler scales.",
)
@click.option(
    "--no-kube-scheduler",
    is_flag=True,
    help="Leave Kubernetes' own scheduler out; pods that name no scheduler then wait.",
)
def command(
    name: str,
    nodes: int,
    gpus_per_node: int,
    gpu_model: str,
    mig: str | None,
    pools: tuple[str, ...],
    kubernetes: str | None,
    binaries: Path | None,
    real_node: bool,
    claim_gpus: int,
    quiet: bool,
    no_scheduler: bool,
    no_web: bool,
    with_metrics_apis: bool,
    no_kube_scheduler: bool,
) -> None:
    """Start a real Kubernetes control plane with simulated GPU nodes on this machine.

    Prints the line that points kubectl to it; your ~/.kube/config is not touched. `gpufleet down` removes
    everything again.
    """
    from gpufleet.localkube import metrics_apis, up
    from gpufleet.localkube.pools import cut, read_pools
    from gpufleet.localkube.processes.folders import cluster_folder
    from gpufleet.localkube.programs.releases import DEFAULT_KUBERNETES, minor_version
    from gpufleet.localkube.simulated_nodes import SimulatedNodes
    from gpufleet.localkube.simulated_nodes import gpu_model as find_model
    from gpufleet.progress.reporting import Silent, ToPerson

    if pools:
        refuse_beside_pools("nodes", "gpus_per_node", "gpu_model", "mig")
        wanted = read_pools(pools)
    else:
        model = find_model(gpu_model)
        layout = () if mig is None else cut(model, mig, "--mig")
        wanted = (SimulatedNodes(nodes, gpus_per_node, model, mig=layout),)
    if claim_gpus and not real_node:
        refuse_claims_without_kubelet(claim_gpus)
    # Bad words are told before anything is looked for or built.
    cluster_folder(name)
    version = DEFAULT_KUBERNETES if kubernetes is None else kubernetes
    minor_version(version)
    ports = metrics_ports(no_scheduler=no_scheduler) if with_metrics_apis else None
    request = up.ClusterRequest(
        name=name,
        kubernetes=version,
        pools=wanted,
        binaries=binaries,
        components=(
            local_volumes(),
            simulated_sharing(),
            *(() if no_scheduler else components(0 if ports is None else ports.scheduler)),
            *(() if no_web else (web_page(),)),
            *(() if ports is None else (metrics_apis.component(ports),)),
        ),
        real_node=real_node,
        claim_gpus=claim_gpus,
        kube_scheduler=not no_kube_scheduler,
        metrics_apis=ports,
    )
    progress = Silent() if quiet else ToPerson("up: ")
    cluster = up.up(request, progress)
    # Where nothing is told, nothing is waited for.
    if not (no_web or quiet):
        progress.say(page_sentence(cluster.folder / URL_FILE))
    # The only line on standard output, because a shell evaluates what is printed there.
    click.echo(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")


def refuse_beside_pools(*names: str) -> None:
    """InputError if an option was given that says what ``--pool`` says."""
    from gpufleet.model.model_errors import InputError

    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise InputError(
                "says what --pool says too",
                field=f"--{name.replace('_', '-')}",
                value=context.params[name],
                expected="one of the two: --pool NODES:MODEL:GPUS has all of it",
            )


def refuse_claims_without_kubelet(claim_gpus: int) -> None:
    """InputError: simulated nodes have no agent that would prepare claims."""
    from gpufleet.model.model_errors import InputError

    raise InputError(
        "are of the real node", field="--claim-gpus", value=claim_gpus, expected="--real-node beside it"
    )


def local_volumes() -> "Component":
    """The provisioner of the default StorageClass."""
    from gpufleet.localkube.control_plane import Component

    # The Python of this command: another one on the path may lack gpufleet.
    command = (sys.executable, "-m", "gpufleet.localkube.local_volumes", "local-volumes.kubeconfig")
    return Component(name="local-volumes", command=command, user="local-volumes")


def simulated_sharing() -> "Component":
    """What has simulated nodes follow NVIDIA's ConfigMaps of sharing."""
    from gpufleet.localkube.control_plane import Component

    name = "simulated-sharing"
    command = (sys.executable, "-m", "gpufleet.simulation.simulated_sharing", f"{name}.kubeconfig")
    return Component(name=name, command=command, user=name)


def web_page() -> "Component":
    """The page of the fleet, on a free port, for the person who started the cluster."""
    from gpufleet.localkube.control_plane import Component

    options = ("--listen=127.0.0.1:0", "--kubeconfig=web.kubeconfig", f"--url-file={URL_FILE}")
    command = (sys.executable, "-m", "gpufleet", "web", *options)
    return Component(name="web", command=command, user="web", groups=("system:masters",))


def page_sentence(url_file: Path) -> str:
    """Where the page is, once its server has said so."""
    from gpufleet.files.regular import read_regular

    ends_s = time.monotonic() + PAGE_S
    while time.monotonic() < ends_s:
        url = read_regular(url_file, URL_BYTES_MAX).decode().strip() if url_file.exists() else ""
        if url:
            return f"the fleet in your browser: {url}"
        time.sleep(0.05)
    return f"the page does not run: its log is {url_file.parent / 'logs' / 'web.log'}"


def metrics_ports(*, no_scheduler: bool) -> "MetricsPorts":
    """Where the metrics APIs and the scheduler's metrics are served. InputError without a scheduler."""
    from gpufleet.localkube.access.ports import free_port
    from gpufleet.localkube.metrics_apis import MetricsPorts
    from gpufleet.model.model_errors import InputError

    if no_scheduler:
        raise InputError(
            "tells autoscalers what waits in queues, which the scheduler knows",
            field="--metrics-apis",
            expected="one of the two: --metrics-apis or --no-scheduler",
        )
    return MetricsPorts(free_port(), free_port())


def components(metrics_port: int = 0) -> "tuple[Component, ...]":
    """Our own programs that run with a cluster, each under the name it has inside a real one.

    ``metrics_port`` is where the scheduler serves its metrics; any free one with 0.
    """
    from gpufleet.kube.manifests import DEFAULT_IDENTITY
    from gpufleet.localkube.control_plane import Component
    from gpufleet.progress.logged import DECIDING

    scheduler = Component(
        name="scheduler",
        command=(
            *(sys.executable, "-m", "gpufleet", "scheduler", "--kubeconfig=scheduler.kubeconfig"),
            f"--listen=127.0.0.1:{metrics_port}",
        ),
        user=DEFAULT_IDENTITY.user,
        groups=DEFAULT_IDENTITY.groups,
        lease=(DEFAULT_IDENTITY.namespace, DEFAULT_IDENTITY.account),
        at_work=DECIDING,
    )
    return (scheduler,)
