"""``gpufleet lint``: what will go wrong with GPUs in manifests; ``gpufleet.lint`` does the work."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import InputFile, InputFolder, InputPath, OneOf, OutputFile
from gpufleet.cli.prometheus_options import Question, prometheus_options

MANIFESTS = InputPath("a file, a folder, or - for standard input", stream=True)
KUSTOMIZATION = InputFolder("a folder with a kustomization.yaml")
CLUSTER = InputFile("objects that kubectl get -o yaml printed, or a file of `gpufleet snapshot`")
USE = InputFile("a table of use")
SETTINGS = InputFile("settings of gpufleet lint")
BASELINE = InputFile("a file that --write-baseline wrote")
NEW_BASELINE = OutputFile("a file to write")
SEVERITIES = ["info", "warning", "error", "never"]


@click.command(name="lint")
@click.argument(
    "paths",
    metavar="[PATH]...",
    nargs=-1,
    type=MANIFESTS,
)
@click.option(
    "-k",
    "--kustomize",
    "kustomizations",
    type=KUSTOMIZATION,
    multiple=True,
    help="Build this Kustomization with kustomize or kubectl, and judge what it builds.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=OneOf(["text", "json", "sarif", "junit", "github"]),
    default="text",
    show_default=True,
    help="The form of the report.",
)
@click.option(
    "--fail-on",
    type=OneOf(SEVERITIES),
    help="End with code 1 if a finding is at least this severe; a warning unless the settings say otherwise.",
)
@click.option(
    "--fix", "fixes", is_flag=True, help="Mend in the files what can be mended, and report the rest."
)
@click.option("--diff", "shows_difference", is_flag=True, help="Show what --fix would change; write nothing.")
@click.option(
    "--cluster",
    type=CLUSTER,
    help="What is known of the cluster: kubectl get nodes,runtimeclasses,pods -A -o yaml, or a file of"
    " gpufleet snapshot.",
)
@click.option("--live", is_flag=True, help="Ask the cluster itself, as kubectl would.")
@cluster_options
@click.option(
    "--metrics",
    type=USE,
    help="What pods used of their GPUs: a table as gpufleet advise sharing reads it.",
)
@prometheus_options
@click.option(
    "--price",
    "prices",
    metavar="MODEL=AMOUNT",
    multiple=True,
    help="Of one GPU for an hour, to say what idles.",
)
@click.option(
    "--config",
    type=SETTINGS,
    help="Settings instead of .gpufleet-lint.yaml in the current folder.",
)
@click.option(
    "--baseline",
    type=BASELINE,
    help="Findings in this file are known and do not count.",
)
@click.option("--write-baseline", type=NEW_BASELINE, help="Write all present findings to this file.")
@click.option("--explain", "rule", metavar="RULE", help="Print the page of a rule, such as GPU021.")
@click.option("--exempt", "linter", metavar="LINTER", help="Print what of another linter is wrong for GPUs.")
@click.option("--rules", "lists_rules", is_flag=True, help="List all rules.")
def command(
    paths: tuple[Path, ...],
    kustomizations: tuple[Path, ...],
    form: str,
    fail_on: str | None,
    fixes: bool,
    shows_difference: bool,
    cluster: Path | None,
    live: bool,
    kubeconfig: Path | None,
    context: str,
    metrics: Path | None,
    prometheus_url: str | None,
    window_s: int,
    until: str | None,
    token_file: Path | None,
    authority_file: Path | None,
    prometheus_cluster: str,
    prices: tuple[str, ...],
    config: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    rule: str | None,
    linter: str | None,
    lists_rules: bool,
) -> int:
    """Say what will go wrong with GPUs in manifests, before anything runs.

    PATHs are files, folders, or - for standard input; helm renders charts below them, if it is installed.
    Ends with code 0 if nothing is found, 1 if something is (see --fail-on), 2 if a manifest is malformed.
    """
    import datetime as dt

    from gpufleet.advise.lint.command import LintOptions, explain, listing, read_cluster, run
    from gpufleet.cli.output import echo_data, echo_line

    if linter is not None:
        from gpufleet.advise.lint.exemptions import profile

        click.echo(profile(linter), nl=False)
        return 0
    if rule is not None or lists_rules:
        click.echo(explain(rule) if rule is not None else listing(), nl=False)
        return 0
    if live and cluster is not None:
        raise click.UsageError("either --live or --cluster, not both")
    _check_inputs(paths, kustomizations, mends=fixes or shows_difference)
    facts = read_cluster(cluster) if cluster is not None else None
    if live:
        from gpufleet.doctor.live.gathering import gathered

        facts = gathered(kubeconfig, context).cluster
    from gpufleet.cli.lint_use import measured_use

    use = measured_use(
        metrics,
        Question(prometheus_url, token_file, authority_file, prometheus_cluster, until, window_s),
        prices,
    )
    today = dt.datetime.now(dt.UTC).date()
    files = (config, baseline, write_baseline, kustomizations)
    outcome = run(
        tuple(map(str, paths)), LintOptions(today, form, fail_on, fixes, shows_difference, facts, use, *files)
    )
    for message in outcome.messages:
        echo_line(message, err=True)
    echo_data(outcome.output)
    # A mended text on standard output must stay fit for a pipe.
    click.echo(outcome.report, nl=False, err=fixes and not shows_difference and Path("-") in paths)
    return outcome.code


def _check_inputs(paths: tuple[Path, ...], kustomizations: tuple[Path, ...], *, mends: bool) -> None:
    """There is something to read, and files where something is to be mended. Raises UsageError."""
    if not paths and not kustomizations:
        raise click.UsageError("name a file or folder, or - for standard input")
    if kustomizations and mends:
        raise click.UsageError("either --kustomize or --fix and --diff: what is built has no file to mend")
