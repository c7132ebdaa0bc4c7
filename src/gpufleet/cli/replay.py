"""``gpufleet replay``: run recorded work through the engine and show how well policies place it.

Only options and output are here; ``replay.plan`` checks the question, ``replay.sweep`` answers it,
``cli.replay_output`` prints it. Everything heavy is imported when the command runs.
"""

import shlex
import sys
from pathlib import Path

import click


@click.command(name="replay")
@click.option(
    "--nodes",
    type=click.Path(),
    help="Node list (CSV or Parquet, also .gz).  [default: the openb trace's 1,213 GPU nodes]",
)
@click.option(
    "--pods",
    type=click.Path(),
    help="Task list (CSV or Parquet, also .gz).  [default: the openb trace's 8,152 tasks]",
)
@click.option(
    "--arrivals",
    type=click.Path(),
    help="Replay this list in its order, on nodes ranked as listed; --pods then only tells fgd its target.",
)
@click.option(
    "--policy",
    default="fgd,gpufleet",
    show_default=True,
    metavar="NAME[,NAME...]",
    help="Policies to compare.",
)
@click.option(
    "--mode",
    type=click.Choice(["saturate", "timeline"]),
    default="saturate",
    show_default=True,
    help="saturate: arrivals only, until the fleet is full; timeline: the trace's own times.",
)
@click.option(
    "--load",
    type=float,
    default=1.3,
    show_default=True,
    help="In saturate mode, how much is asked for, in times the GPUs of the cluster.",
)
@click.option(
    "--seed",
    default="42",
    show_default=True,
    metavar="N | N..M",
    help="Seeds of the shuffles; each is a run.",
)
@click.option(
    "--order",
    type=click.Choice(["shuffled", "submitted"]),
    default="shuffled",
    show_default=True,
    help="Order of arrivals in saturate mode.",
)
@click.option("--jobs", type=click.IntRange(1), help="Runs at a time.  [default: one a core]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the report (HTML and PNG), results.json and placements into this folder.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(),
    metavar="FILE",
    help="Write the results as JSON; - for standard output.",
)
@click.option(
    "--log",
    "log_path",
    type=click.Path(),
    metavar="FILE",
    help="Write the engine's event log (one run only); `gpufleet rerun` runs it again.",
)
@click.option(
    "--skip-bad-rows",
    "skip_bad_rows_pct",
    type=click.FloatRange(0, 100),
    default=0.0,
    metavar="PERCENT",
    help="Leave out up to this share of bad rows, and say which.  [default: 0]",
)
@click.option(
    "--ray",
    "ray_address",
    metavar="ADDRESS",
    help="Run the sweep on this Ray cluster: host:port, auto, or local to start one (needs gpufleet[ray]).",
)
@click.option("--quiet", is_flag=True, help="No progress, no table.")
def command(
    nodes: str | None,
    pods: str | None,
    arrivals: str | None,
    policy: str,
    mode: str,
    load: float,
    seed: str,
    order: str,
    jobs: int | None,
    out: Path | None,
    json_path: str | None,
    log_path: str | None,
    skip_bad_rows_pct: float,
    ray_address: str | None,
    quiet: bool,
) -> int:
    """Replay a trace of tasks on a fleet and report how well policies place them.

    Without options: the openb production trace (Alibaba GPU v2023) under the published protocol,
    with the policies fgd and gpufleet.
    """
    from gpufleet.cli.main import ExitCode
    from gpufleet.cli.replay_output import Output
    from gpufleet.replay.data_files import shipped_node_list
    from gpufleet.replay.plan import plan, whole_result
    from gpufleet.replay.run_request import RunRequest

    output = Output(quiet=quiet, out=out, json_path=json_path)
    template = RunRequest(
        nodes_path=str(nodes or shipped_node_list()),
        pods_path=str(pods or default_pods(nodes, arrivals)),
        policy="",
        seed=0,
        mode=mode,
        load=load,
        arrivals_path=arrivals,
        skip_bad_rows_pct=skip_bad_rows_pct,
        submitted_order=order == "submitted",
        log_path=log_path,
    )
    planned = plan(template, policy, seed, out, shown_command())
    output.check_targets(log_path)
    output.tell_notes(planned)
    outcome = output.sweep(planned, jobs, ray_address)
    result = whole_result(planned, outcome)
    output.tell_skipped(result)
    output.write(result)
    output.show(result)
    if not result.complete:
        output.tell_missing(outcome)
    if outcome.failure is not None:
        raise outcome.failure
    return ExitCode.INTERRUPTED if outcome.interrupted else ExitCode.DONE


def default_pods(nodes: str | None, arrivals: str | None) -> str | Path:
    """The task list when none is named: on a fleet of one's own the arrivals tell what is typical."""
    from gpufleet.replay.data_files import shipped_task_list

    return arrivals if arrivals is not None and nodes is not None else shipped_task_list()


def shown_command() -> str:
    """The command line as typed, to be quoted in results."""
    return shlex.join(["gpufleet", *sys.argv[1:]])
