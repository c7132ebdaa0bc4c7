"""``gpufleet mig``: how cards are cut into MIG instances; ``gpufleet.repartition`` finds it out."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import SNAPSHOT, InputFile, OneOf

if TYPE_CHECKING:
    from gpufleet.repartition.command import WantedConfig

CONFIGS = InputFile("a config file of mig-parted")


@click.group(name="mig")
def command() -> None:
    """Say how cards would be cut into MIG instances."""


@command.command(name="plan")
@click.option("--snapshot", type=SNAPSHOT, help="A file of `gpufleet snapshot`, instead of a cluster.")
@click.option(
    "--config-file",
    type=CONFIGS,
    help="A config file of mig-parted: say what it would change, instead of what pods wait for.",
)
@click.option(
    "--config",
    metavar="NAME",
    help="The config of the file.  [default: what each node's label nvidia.com/mig.config names]",
)
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
def plan(
    snapshot: Path | None,
    config: str | None,
    config_file: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Say which cards would be cut for the pods that wait for MIG instances, step by step.

    Instances in use are never touched, and a card out of MIG mode is cut only where it is idle and no other
    card has room. Nothing is changed.
    """
    if snapshot is not None and (kubeconfig is not None or context):
        raise click.UsageError("either a snapshot or a cluster, not both")
    if config is not None and config_file is None:
        raise click.UsageError("--config is a name in a file: give --config-file")
    from gpufleet.cli.mig_output import show
    from gpufleet.cli.rerun import log_lines
    from gpufleet.cluster.settings import Settings
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.repartition.command import of_cluster, of_snapshot

    wanted = None if config_file is None else _config(config_file, config or "")
    if snapshot is not None:
        with log_lines(snapshot) as lines:
            answer = of_snapshot(lines, str(snapshot), wanted)
    else:
        answer = of_cluster(ClusterChoice(kubeconfig, context), Settings(identity="mig-plan"), wanted)
    show(answer, output)


def _config(file: Path, name: str) -> "WantedConfig":
    """The config of this name in a file, "" for those of labels. Raises InputError for a bad file."""
    from gpufleet.devices.mig_parted import read_mig_configs
    from gpufleet.devices.yaml_text import SIZE_MAX_BYTES
    from gpufleet.files.regular import read_regular
    from gpufleet.model.model_errors import InputError
    from gpufleet.repartition.command import WantedConfig

    try:
        text = read_regular(file, SIZE_MAX_BYTES, field="--config-file")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise InputError(
            problem, field="--config-file", value=str(file), expected="a file of YAML"
        ) from error
    return WantedConfig(read_mig_configs(text, str(file)), name)
