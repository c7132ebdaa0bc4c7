"""``gpufleet whatif``: what changes would bring; ``gpufleet.whatif`` finds it out."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_option
from gpufleet.cli.parameters import POLICY, SNAPSHOT, InputFile, OneOf

if TYPE_CHECKING:
    from gpufleet.whatif.request import Submitted


@click.command(name="whatif")
@click.option(
    "--add-nodes",
    metavar="COUNT[:LIKE]",
    multiple=True,
    help="Nodes more: 2, 2:like=NODE, or 2:gpus=8,model=H100-80GB[,cpu=..][,memory=..][,sharing=mixed].",
)
@click.option("--remove-node", metavar="NODE", multiple=True, help="A node less.")
@click.option(
    "--remove-pool",
    metavar="POOL",
    multiple=True,
    help="The nodes of a pool less: its name, or LABEL=VALUE of its nodes.",
)
@click.option(
    "--set-quota",
    metavar="QUEUE.RESOURCE=VALUE",
    multiple=True,
    help="Another nominal quota; QUEUE.RESOURCE.borrowing, .lending and .hard are limits, and may be none.",
)
@click.option(
    "--submit",
    metavar="FILE",
    multiple=True,
    type=InputFile("a file of YAML, or - for standard input", stream=True),
    help="Work more: Pods, Jobs, Deployments, ReplicaSets, StatefulSets, and what they name.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of work that names none.")
@click.option("--snapshot", type=SNAPSHOT, help="A file of `gpufleet snapshot`, instead of a cluster.")
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
@scheduler_option
@click.option("--policy", type=POLICY, default="gpufleet", show_default=True, help="The scheduler's policy.")
def command(
    add_nodes: tuple[str, ...],
    remove_node: tuple[str, ...],
    remove_pool: tuple[str, ...],
    set_quota: tuple[str, ...],
    submit: tuple[Path, ...],
    namespace: str,
    snapshot: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    policy: str,
) -> None:
    """Say what changes would bring: what starts, where and when, what is evicted, what still waits.

    All changes are made together, on a copy: nothing is changed in the cluster. Two engines decide, one with
    the changes and one without; the answer is what differs. All options for changes may be repeated.
    """
    from gpufleet.whatif.request import Request, read_add_nodes, read_set_quota

    if snapshot is not None and (kubeconfig is not None or context):
        raise click.UsageError("either a snapshot or a cluster, not both")
    request = Request(
        tuple(read_add_nodes(text) for text in add_nodes),
        remove_node,
        tuple(read_set_quota(text) for text in set_quota),
        tuple(submitted(path) for path in submit),
        namespace,
        remove_pool,
    )
    if request.empty:
        raise click.UsageError(
            "nothing would change: name --add-nodes, --remove-node, --remove-pool, --set-quota or --submit"
        )
    from gpufleet.cli.rerun import log_lines
    from gpufleet.cli.whatif_output import show
    from gpufleet.cluster.settings import Settings
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.whatif.command import check, of_cluster, of_snapshot

    check(request)
    if snapshot is not None:
        with log_lines(snapshot) as lines:
            answer = of_snapshot(request, lines, str(snapshot))
    else:
        cluster = ClusterChoice(kubeconfig, context)
        settings = Settings(identity="whatif", scheduler_name=scheduler_name, policy=policy)
        answer = of_cluster(request, cluster, settings)
    show(answer, output)


def submitted(path: Path) -> "Submitted":
    """A file with work in it. Raises InputError where it cannot be read."""
    from gpufleet.files.regular import read_regular, read_standard_input
    from gpufleet.kube.yaml_documents import DOCUMENTS_MAX_BYTES
    from gpufleet.model.model_errors import InputError
    from gpufleet.whatif.request import Submitted

    if str(path) == "-":
        return checked(
            Submitted("standard input", read_standard_input(DOCUMENTS_MAX_BYTES, field="--submit"))
        )
    try:
        return checked(Submitted(path.name, read_regular(path, DOCUMENTS_MAX_BYTES, field="--submit")))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise InputError(problem, field="--submit", value=str(path), expected="a file of YAML") from error


def checked(file: "Submitted") -> "Submitted":
    """The file, if it holds objects: a bad one is told before the cluster is read. Raises InputError."""
    from gpufleet.kube.yaml_documents import EXPECTED, objects_of
    from gpufleet.model.model_errors import InputError

    if not objects_of(file.content, file.name):
        raise InputError("holds no object", field="--submit", where=file.name, expected=EXPECTED)
    return file
