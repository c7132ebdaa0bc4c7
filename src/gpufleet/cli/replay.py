"""``gpufleet replay``: run recorded work through the engine and show how well policies place it.

Only options and output are here; ``replay.plan`` checks the question, ``replay.sweep`` answers it,
``cli.replay_output`` prints it. Everything heavy is imported when the command runs.
"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.parameters import InputFile, OneOf, OutputFile, OutputFolder, Real, Whole
from gpufleet.cli.price_options import PRICES

if TYPE_CHECKING:
    from gpufleet.cli.replay_output import Output
    from gpufleet.replay.plan import SweepPlan

NODE_LIST = InputFile("a node list (CSV or Parquet, also .gz)")
TASK_LIST = InputFile("a task list (CSV or Parquet, also .gz)")


@click.command(name="replay")
@click.option(
    "--nodes",
    type=NODE_LIST,
    help="Node list (CSV or Parquet, also .gz).  [default: the openb trace's 1,213 GPU nodes]",
)
@click.option(
    "--pods",
    type=TASK_LIST,
    help="Task list (CSV or Parquet, also .gz).  [default: the openb trace's 8,152 tasks]",
)
@click.option(
    "--arrivals",
    type=TASK_LIST,
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
    type=OneOf(["saturate", "timeline"]),
    default="saturate",
    show_default=True,
    help="saturate: arrivals only, until the fleet is full; timeline: the trace's own times.",
)
@click.option(
    "--load",
    type=Real(0, 100, above=True),
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
    type=OneOf(["shuffled", "submitted"]),
    default="shuffled",
    show_default=True,
    help="Order of arrivals in saturate mode.",
)
@click.option(
    "--preempt-by-priority/--no-preempt-by-priority",
    default=True,
    show_default=True,
    help="In timeline mode, evict tasks of lower priority, as the scheduler does; they start anew.",
)
@click.option(
    "--prices",
    multiple=True,
    type=PRICES,
    help="In timeline mode, also say what the fleet costs: tables of prices, as of gpufleet cost.",
)
@click.option(
    "--ledger",
    "ledger_path",
    type=OutputFile("a file to write"),
    metavar="FILE",
    help="In timeline mode (one run only), write what tasks held, for gpufleet cost and close-month.",
)
@click.option(
    "--begin",
    metavar="TIME",
    help="With --ledger: when the trace begins, such as 2026-10-31 or 2026-10-31T06:00:00Z, in UTC.",
)
@click.option("--jobs", type=Whole(1, 1024), help="Runs at a time.  [default: one a core]")
@click.option(
    "--out",
    type=OutputFolder("a folder, or a path where one can be made"),
    metavar="DIR",
    help="Write the report (HTML and PNG), results.json and placements into this folder.",
)
@click.option(
    "--json",
    "json_path",
    type=OutputFile("a file to write, or - for standard output", stream=True),
    metavar="FILE",
    help="Write the results as JSON; - for standard output.",
)
@click.option(
    "--log",
    "log_path",
    type=OutputFile("a file to write"),
    metavar="FILE",
    help="Write the engine's event log (one run only); `gpufleet rerun` runs it again.",
)
@click.option(
    "--skip-bad-rows",
    "skip_bad_rows_pct",
    type=Real(0, 100),
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
    nodes: Path | None,
    pods: Path | None,
    arrivals: Path | None,
    policy: str,
    mode: str,
    load: float,
    seed: str,
    order: str,
    preempt_by_priority: bool,
    prices: tuple[Path, ...],
    ledger_path: Path | None,
    begin: str | None,
    jobs: int | None,
    out: Path | None,
    json_path: Path | None,
    log_path: Path | None,
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
    from gpufleet.progress.reporting import Silent, ToPerson
    from gpufleet.replay.data_files import shipped_node_list
    from gpufleet.replay.kernels import prepare
    from gpufleet.replay.plan import plan, whole_result
    from gpufleet.replay.run_request import RunRequest

    output = Output(quiet=quiet, out=out, json_path=None if json_path is None else str(json_path))
    template = RunRequest(
        nodes_path=str(nodes or shipped_node_list()),
        pods_path=str(pods or default_pods(nodes, arrivals)),
        policy="",
        seed=0,
        mode=mode,
        load=load,
        preempt_by_priority=preempt_by_priority,
        arrivals_path=None if arrivals is None else str(arrivals),
        skip_bad_rows_pct=skip_bad_rows_pct,
        submitted_order=order == "submitted",
        log_path=None if log_path is None else str(log_path),
        ledger_path=None if ledger_path is None else str(ledger_path),
        begin_us=begin_of(begin, ledger_path),
    )
    planned = with_prices(plan(template, policy, seed, out, shown_command()), prices, output)
    # Before the replay: that a file cannot be written must not be found out after hours.
    output.check_targets(log_path, ledger_path)
    output.tell_notes(planned)
    prepare(Silent() if quiet else ToPerson("gpufleet: "))
    outcome = output.sweep(planned, jobs, ray_address)
    result = whole_result(planned, outcome)
    output.tell_skipped(result)
    output.write(result)
    output.show(result)
    if not result.complete:
        output.tell_missing(outcome)
    # Last, so that the runs that ended are written and shown.
    if outcome.failure is not None:
        raise outcome.failure
    return ExitCode.INTERRUPTED if outcome.interrupted else ExitCode.DONE


def begin_of(begin: str | None, ledger_path: Path | None) -> int:
    """When the trace begins, in microseconds since 1970. Raises InputError."""
    from gpufleet.cli.cost_input import moment_of
    from gpufleet.model.model_errors import InputError

    at_us = moment_of(begin, "--begin")
    if at_us is None and ledger_path is not None:
        expected = "--begin TIME, as a trace counts from its own start"
        raise InputError("has no time", field="--ledger", value=str(ledger_path), expected=expected)
    if at_us is not None and ledger_path is None:
        raise InputError("a begin of nothing", field="--begin", value=begin, expected="--ledger FILE")
    return at_us or 0


def with_prices(planned: "SweepPlan", prices: tuple[Path, ...], output: "Output") -> "SweepPlan":
    """The sweep, with the price of each node where prices are given. Raises InputError."""
    import msgspec

    from gpufleet.model.model_errors import InputError

    if not prices:
        return planned
    # Only where prices are asked for: the ledger is no part of a replay.
    from gpufleet.cli.replay_prices import prices_of

    found, notes = prices_of(prices, planned.trace.nodes)
    if planned.requests[0].mode != "timeline":
        raise InputError(
            "money passes with time, which a saturated fleet has not",
            field="--prices",
            expected="--mode timeline",
        )
    output.tell(notes)
    requests = tuple(msgspec.structs.replace(one, prices=found) for one in planned.requests)
    return msgspec.structs.replace(planned, requests=requests)


def default_pods(nodes: Path | None, arrivals: Path | None) -> Path:
    """The task list when none is named: on a fleet of one's own the arrivals tell what is typical."""
    from gpufleet.replay.data_files import shipped_task_list

    return arrivals if arrivals is not None and nodes is not None else shipped_task_list()


def shown_command() -> str:
    """The command line as typed, to be quoted in results."""
    return shlex.join(["gpufleet", *sys.argv[1:]])
