"""Lays the plan for a history out for people, and writes its files."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from gpufleet.cli.output import echo_json, echo_line, terminal_of
from gpufleet.cli.plan_output import amounts, purchase_table, request_words, spot_lines
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.cli.whatif_output import wrapped
from gpufleet.files.atomic_write import check_target, make_folder
from gpufleet.model.phrases import counted, length
from gpufleet.plan.answer import MONTH_HOURS, type_words
from gpufleet.plan.history.answer import FleetFound, Helpless, HistoryPlan, LevelFound
from gpufleet.plan.history.command import Planned
from gpufleet.plan.history.service_level import CLASSES, class_words
from gpufleet.replay.results import Waits

PLAN_FILE = "plan.json"
LISTED_MAX = 10
"""A screen shows them; JSON has all."""


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """What the search does, on one line of a terminal."""
    console = Console(highlight=False, file=terminal_of(sys.stderr))
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("replaying") as status:
        yield lambda words: status.update(f"replaying: {words}")


def check_folder(out: Path | None) -> None:
    """Make the folder for the report, and find out now whether it can be written."""
    if out is not None:
        make_folder(out)
        check_target(out / PLAN_FILE)


def write(planned: Planned, out: Path, *, is_quiet: bool) -> None:
    """The report with its charts, the answer, and the fleet and the work as traces."""
    from gpufleet.plan.history.report import write_plan_report

    page = write_plan_report(planned, out)
    if not is_quiet:
        echo_line(f"report: {page}")


def show(plan: HistoryPlan, output: str) -> None:
    """Print the plan, on standard output."""
    if output == "json":
        echo_json(plan)
        return
    for line in lines(plan):
        echo_line(line)


def lines(plan: HistoryPlan) -> Iterator[str]:
    """The whole text."""
    yield f"{counted(plan.tasks, 'task')} of {plan.source}"
    if plan.forecast:
        yield from wrapped(f"This is {plan.forecast}.", 2)
    for level in plan.levels:
        yield f"Wanted: {level.words}."
    yield ""
    if plan.today is not None:
        yield from _fleet_there(plan.today, "The fleet that is there")
    yield from _without(plan)
    if plan.levels:
        yield from _best(plan)
    yield from _others(plan)
    yield from spot_lines(plan.spot)
    yield from _nothing_helps(plan.nothing_helps)
    yield ""
    yield from wrapped(f"Note: prices are from {plan.catalogue}.", 6)
    for note in plan.notes:
        yield from wrapped(f"Note: {note}", 6)
    yield f"The engine played the work {plan.replays} times. Nothing was bought."


def _fleet_there(fleet: FleetFound, name: str) -> Iterator[str]:
    never = f", and {counted(fleet.never_started, 'task')} never" if fleet.never_started else ""
    if fleet.levels:
        verdict = "holds the service level" if fleet.holds else "misses the service level"
        yield f"{name} ({counted(fleet.gpus, 'GPU')}) {verdict}:"
        yield from (f"  {_level_words(one)}{never}" for one in fleet.levels)
    else:
        yield f"{name} ({counted(fleet.gpus, 'GPU')}) starts {_all_but(fleet)}."
    yield from _waits(fleet)


def _all_but(fleet: FleetFound) -> str:
    return f"all but {counted(fleet.never_started, 'task')}" if fleet.never_started else "every task"


def _level_words(found: LevelFound) -> str:
    share = f"{100 * found.in_time / found.tasks:.1f} %"
    waits = (
        "some never start"
        if found.wait_s is None
        else f"{found.level.percent} % within {length(found.wait_s)}"
    )
    return f"{share} of the tasks {class_words(found.level.task_class)} start in time; {waits}"


def _waits(fleet: FleetFound) -> Iterator[str]:
    columns = [Column("TASKS WAIT"), Column("STARTED", right=True), Column("HALF", right=True)]
    columns += [Column(name, right=True) for name in ("90 %", "99 %", "LONGEST", "NEVER STARTED")]
    rows = [_wait_row(name, fleet.waits[name]) for name in CLASSES if name in fleet.waits]
    if not rows:
        return
    for line in laid_out(columns, [(row, "") for row in rows], None):
        yield f"  {line.text}"


def _wait_row(name: str, waits: Waits) -> list[str]:
    figures = [waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s]
    told = ["-" if figure is None else length(figure) for figure in figures]
    return [class_words(name), str(waits.started), *told, str(waits.never_started)]


def _without(plan: HistoryPlan) -> Iterator[str]:
    gone = plan.without
    if gone is None:
        return
    pools = " and ".join(gone.pools)
    yield from _fleet_there(gone.fleet, f"Without {pools}, the fleet")
    if gone.cost_micro is None:
        yield from wrapped(f"What {pools} costs is not known: no price is in the table.", 2)
    else:
        cost = amounts([gone.cost_micro])[0]
        nodes = counted(gone.nodes, "node")
        yield from wrapped(f"The {nodes} of {pools} cost {cost} {plan.currency} per hour.", 2)


def _best(plan: HistoryPlan) -> Iterator[str]:
    best = plan.best
    if best is None:
        yield "No purchase of these types was found that holds the service level."
        return
    if not best.nodes:
        yield "Nothing needs to be bought."
        return
    beside = " beside the fleet" if plan.today is not None else ""
    holds = "that holds it" if plan.is_cheapest else "that was found to hold it"
    yield f"The cheapest purchase{beside} {holds}:"
    yield from purchase_table(best.nodes, best.cost_micro, plan.currency)
    yield from (f"  {_level_words(one)}" for one in best.levels)
    yield from _waits(best)


def _others(plan: HistoryPlan) -> Iterator[str]:
    if not plan.others:
        return
    yield "Smaller and larger, replayed too:"
    columns = [Column(f"{plan.currency} PER MONTH", right=True), Column("HOLDS"), Column("NODES")]
    columns += [Column(f"p{one.percent} {class_words(one.task_class)}", right=True) for one in plan.levels]
    months = amounts([one.cost_micro * MONTH_HOURS for one in plan.others])
    rows = [
        [month, "yes" if one.holds else "no", _nodes(one), *(_other_wait(level) for level in one.levels)]
        for month, one in zip(months, plan.others, strict=True)
    ]
    for line in laid_out(columns, [(row, "") for row in rows], None):
        yield f"  {line.text}"


def _other_wait(found: LevelFound) -> str:
    return "never" if found.wait_s is None else length(found.wait_s)


def _nodes(fleet: FleetFound) -> str:
    return ", ".join(f"{one.count} x {type_words(one)}" for one in fleet.nodes) or "none"


def _nothing_helps(found: tuple[Helpless, ...]) -> Iterator[str]:
    if not found:
        return
    tasks = counted(sum(one.tasks for one in found), "task")
    yield f"No purchase of these types helps {tasks}, which are left out:"
    for one in found[:LISTED_MAX]:
        asked = f"{counted(one.tasks, 'task')} with {request_words(one.gpus, one.gpu_milli, one.models)}"
        yield from wrapped(f"  {asked}: {one.why or 'no node of the fleet or the table has room'}", 6)
    if len(found) > LISTED_MAX:
        yield f"  and {sum(one.tasks for one in found[LISTED_MAX:])} more"
