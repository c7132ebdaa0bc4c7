"""``gpufleet plan --history``: the options, and the way from them to the answer and its files."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gpufleet.cli.parameters import InputFile, OutputFolder
from gpufleet.cli.prometheus_options import prometheus_options, read_until

if TYPE_CHECKING:
    from gpufleet.plan.history.recorded_work import SeenWork

NODE_LIST = InputFile("a node list (CSV or Parquet, also .gz), or a snapshot")
TASK_LIST = InputFile("a task list (CSV or Parquet, also .gz), a ledger, or a snapshot")

OPTIONS = (
    click.option(
        "--history",
        multiple=True,
        type=TASK_LIST,
        help="Plan the fleet for recorded work instead of a cluster: a task list, a ledger, or snapshots.",
    ),
    click.option(
        "--nodes", type=NODE_LIST, help="With --history: the nodes that are there.  [default: none]"
    ),
    click.option(
        "--wait",
        metavar="LEVEL",
        multiple=True,
        help="With --history: how long work may wait, as p95=30m, or 8:p99=2h for tasks of 8 GPUs.",
    ),
    click.option("--growth", metavar="FACTOR", help="With --history: so many times the work.  [default: 1]"),
    click.option("--month", metavar="MONTH", help="With --history: a forecast for a month, as 2026-12."),
    click.option(
        "--begin", metavar="TIME", help="With --month: when the history begins, such as 2026-10-31."
    ),
    click.option(
        "--checkpoint",
        metavar="QUEUE=LENGTH",
        multiple=True,
        help="How often work of a queue saves itself, for spot capacity.  [default: never]",
    ),
    click.option(
        "--on-demand",
        metavar="QUEUE=PERCENT",
        multiple=True,
        help="The least share of a queue's GPU time on demand.  [default: 0]",
    ),
    click.option(
        "--out",
        type=OutputFolder("a folder, or a path where one can be made"),
        metavar="DIR",
        help="With --history: write the report (HTML and PNG), and the fleet and the work as traces.",
    ),
)


OF_A_CLUSTER = (
    *("submit", "set_quota", "remove_node", "by", "snapshot", "kubeconfig", "context"),
    *("cluster_pools", "spot_share"),
)
"""Parameters of the command that mean nothing for a history."""


def or_history(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of a history, which is planned for in its place where one is given."""

    @functools.wraps(command)
    def either(
        history: tuple[Path, ...],
        nodes: Path | None,
        wait: tuple[str, ...],
        growth: str | None,
        month: str | None,
        begin: str | None,
        checkpoint: tuple[str, ...],
        on_demand: tuple[str, ...],
        out: Path | None,
        **others: Any,
    ) -> None:
        asked = Asked(nodes, wait, growth, month, begin, checkpoint, on_demand, out)
        server = {name: others.pop(name) for name in OF_PROMETHEUS}
        if history and server["prometheus_url"] is not None:
            raise click.UsageError("either --history FILE or --prometheus URL, not both")
        if not history and server["prometheus_url"] is None:
            both = ("--checkpoint", "--on-demand")
            only = [name for name in asked.names if name not in both]
            _refuse(only, "is about a history: give --history FILE or --prometheus URL too")
            command(**others, checkpoint=checkpoint, on_demand=on_demand)
            return
        given = [f"--{name.replace('_', '-')}" for name in OF_A_CLUSTER if others[name]]
        _refuse(given, "is about a cluster, and --history and --prometheus are about recorded work")
        _plan(history or _asking(server), asked, **{name: others[name] for name in others if name in OF_BOTH})

    for option in reversed(OPTIONS):
        either = option(either)
    return prometheus_options(either)


OF_PROMETHEUS = ("prometheus_url", "token_file", "authority_file", "prometheus_cluster", "until", "window_s")
"""Parameters that say which server tells of the past, and which time is meant."""


def _asking(server: Mapping[str, Any]) -> "Callable[[], SeenWork]":
    """What asks the server for work. Raises InputError for what is no server or no time."""
    from gpufleet.plan.history.prometheus_history import STEP_S, work_of_prometheus
    from gpufleet.usage.prometheus.access import read_access
    from gpufleet.usage.prometheus.client import Prometheus
    from gpufleet.usage.prometheus.window import window_until

    authority, cluster = server["authority_file"], server["prometheus_cluster"]
    access = read_access(server["prometheus_url"], server["token_file"], authority, cluster)
    window = window_until(read_until(server["until"]), server["window_s"], STEP_S)
    source = Prometheus(access)
    return lambda: work_of_prometheus(source, window)


OF_BOTH = ("catalogue", "names", "pools", "remove_pool", "policy", "output")
"""Parameters of the command that mean the same for a history."""


class Asked(NamedTuple):
    """What only a history is asked."""

    nodes: Path | None
    wait: tuple[str, ...]
    growth: str | None
    month: str | None
    begin: str | None
    checkpoint: tuple[str, ...]
    on_demand: tuple[str, ...]
    out: Path | None

    @property
    def names(self) -> list[str]:
        """The options that were given."""
        return [f"--{name.replace('_', '-')}" for name, value in self._asdict().items() if value]


def _refuse(names: Sequence[str], problem: str) -> None:
    if names:
        raise click.UsageError(f"{names[0]} {problem}")


def _plan(
    history: "tuple[Path, ...] | Callable[[], SeenWork]",
    asked: Asked,
    *,
    catalogue: Path | None,
    names: tuple[str, ...],
    pools: Path | None,
    remove_pool: tuple[str, ...],
    policy: str,
    output: str,
) -> None:
    """Plan for a history, show the answer, and write the report where one is wanted."""
    from gpufleet.cli.plan_pools import read_offers
    from gpufleet.plan.history.command import HistoryQuestion, plan_of_history
    from gpufleet.plan.history.forecast import read_growth, read_month
    from gpufleet.plan.history.service_level import read_level
    from gpufleet.plan.history.spot_choice import read_spot_question
    from gpufleet.plan.instance_types import catalogue_of, chosen

    if asked.nodes is None and not asked.wait:
        raise click.UsageError("a history needs --wait LEVEL, --nodes FILE, or both")
    if asked.nodes is None and remove_pool:
        raise click.UsageError("--remove-pool needs --nodes FILE beside a history")
    kinds = chosen(catalogue_of(catalogue), names)
    offers = read_offers(kinds, pools, None, remove_pool)
    question = HistoryQuestion(
        history,
        kinds if offers is None else offers.catalogue,
        tuple(read_level(text) for text in asked.wait),
        asked.nodes,
        remove_pool,
        read_growth("1" if asked.growth is None else asked.growth),
        None if asked.month is None else read_month(asked.month),
        begin_of(asked.begin, asked.month),
        policy,
        read_spot_question(asked.checkpoint, asked.on_demand),
        {} if offers is None else offers.left,
        () if offers is None else offers.notes,
    )
    from gpufleet.cli.plan_history_output import check_folder, progress, show, write
    from gpufleet.progress.reporting import ToPerson
    from gpufleet.replay.kernels import prepare

    # Before the replays: that a file cannot be written must not be found out after minutes.
    check_folder(asked.out)
    prepare(ToPerson("gpufleet: "))
    with progress() as say:
        planned = plan_of_history(question, say)
    show(planned.answer, output)
    if asked.out is not None:
        write(planned, asked.out, is_quiet=output == "json")


def begin_of(begin: str | None, month: str | None) -> int | None:
    """When the history begins, in microseconds since 1970. Raises UsageError and InputError."""
    from gpufleet.cli.cost_input import moment_of

    at_us = moment_of(begin, "--begin")
    if month is None and at_us is not None:
        raise click.UsageError("--begin needs --month: only a forecast asks for weekdays")
    return at_us
