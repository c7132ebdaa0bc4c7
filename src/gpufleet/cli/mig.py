"""``gpufleet mig``: how cards are cut into MIG instances; ``gpufleet.repartition`` finds it out."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import SNAPSHOT, InputFile, OneOf, Whole

if TYPE_CHECKING:
    from gpufleet.repartition.command import PlanQuestion, WantedConfig

CONFIGS = InputFile("a config file of mig-parted")
Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


@click.group(name="mig")
def command() -> None:
    """Say how cards would be cut into MIG instances, and have them cut."""


def question_options(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """What is planned, and for which nodes."""
    options = [
        click.argument("layouts", metavar="[CARD=LAYOUT]...", nargs=-1),
        click.option(
            "--node", "nodes", multiple=True, help="A node whose cards may be cut; several times for more."
        ),
        click.option(
            "--config-file",
            type=CONFIGS,
            help="A config file of mig-parted: bring cards to it, instead of what pods wait for.",
        ),
        click.option(
            "--config",
            metavar="NAME",
            help="The config of the file.  [default: what each node's label nvidia.com/mig.config names]",
        ),
        click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]"),
    ]
    for one in reversed(options):
        function = one(function)
    return function


@command.command(name="plan")
@click.option("--snapshot", type=SNAPSHOT, help="A file of `gpufleet snapshot`, instead of a cluster.")
@question_options
@cluster_options
def plan(
    layouts: tuple[str, ...],
    snapshot: Path | None,
    nodes: tuple[str, ...],
    config: str | None,
    config_file: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Say which cards would be cut for the pods that wait for MIG instances, step by step.

    With CARD=LAYOUT it is said of these cards instead: GPU-a=2g.20gb,3g.40gb or GPU-a=whole. Instances in use
    are never touched, and a card out of MIG mode is cut only where it is idle and no other card has room.
    Nothing is changed.
    """
    if snapshot is not None and (kubeconfig is not None or context):
        raise click.UsageError("either a snapshot or a cluster, not both")
    question = _question(layouts, nodes, config, config_file)
    from gpufleet.cli.mig_output import show
    from gpufleet.cli.rerun import log_lines
    from gpufleet.cluster.settings import Settings
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.repartition.command import of_cluster, of_snapshot

    if snapshot is not None:
        with log_lines(snapshot) as lines:
            answer = of_snapshot(lines, str(snapshot), question)
    else:
        answer = of_cluster(ClusterChoice(kubeconfig, context), Settings(identity="mig-plan"), question)
    show(answer, output)


@command.command(name="apply")
@question_options
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=Whole(0, 7 * 86_400),
    default=600,
    show_default=True,
    help="How long to wait until the cards are cut; 0 only writes what they shall be.",
)
@cluster_options
def apply(
    layouts: tuple[str, ...],
    nodes: tuple[str, ...],
    config: str | None,
    config_file: Path | None,
    output: str,
    wait_s: int,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Cut cards as `gpufleet mig plan` says with the same words, and wait until they are.

    The plan is shown, then written on the Nodes, and their agents carry it out where they run with
    --mig-layouts. Instances in use are never touched. What is written stays: a card whose instances are in
    use meanwhile is cut once they are free.
    """
    question = _question(layouts, nodes, config, config_file)
    from gpufleet.cli.mig_output import show, tell
    from gpufleet.cluster.settings import Settings
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.repartition.applying import apply_plan, made_plan

    cluster = ClusterChoice(kubeconfig, context)
    made = made_plan(cluster, Settings(identity="mig-apply"), question)
    show(made.plan, output, changes=bool(made.plan.cards))
    if made.plan.cards:
        apply_plan(made, cluster, wait_s, tell)


def _question(
    layouts: tuple[str, ...], nodes: tuple[str, ...], config: str | None, config_file: Path | None
) -> "PlanQuestion":
    """What the words ask for. Raises InputError for a bad layout or file."""
    if config is not None and config_file is None:
        raise click.UsageError("--config is a name in a file: give --config-file")
    if layouts and config_file is not None:
        raise click.UsageError("either CARD=LAYOUT or --config-file, not both")
    from gpufleet.repartition.command import PlanQuestion
    from gpufleet.repartition.given_layouts import read_given

    wanted = None if config_file is None else _config(config_file, config or "")
    return PlanQuestion(wanted, read_given(layouts), nodes)


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
