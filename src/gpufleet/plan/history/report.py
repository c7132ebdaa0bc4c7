"""The report of a plan for a history: a page as a replay has it, its charts as PNG files, and the data.

``nodes.csv`` and ``tasks.csv`` are the fleet and the work of the plan: `gpufleet replay --mode timeline
--nodes nodes.csv --pods tasks.csv --policy ...` plays them again and finds the same waits.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.files.atomic_write import write_whole
from gpufleet.model.money import MICRO_UNITS
from gpufleet.plan.answer import MONTH_HOURS
from gpufleet.plan.history.answer import FleetFound, HistoryPlan
from gpufleet.plan.history.charts import cost_against_wait, nodes_words, over_time, waits_by_size
from gpufleet.plan.history.command import Planned
from gpufleet.plan.history.fleet_trials import US_PER_S
from gpufleet.plan.history.service_level import CLASSES, class_words
from gpufleet.plan.history.trace_files import write_traces
from gpufleet.replay.report.chart import Chart
from gpufleet.replay.report.figures import amount, count, duration, plural
from gpufleet.replay.report.headline import Headline, Tile
from gpufleet.replay.report.page import Page, Section, page_html
from gpufleet.replay.report.raster import chart_png
from gpufleet.replay.report.table import Table, table

PAGE_FILE, PLAN_FILE = "report.html", "plan.json"
CHARTS_FOLDER = "charts"


def write_plan_report(planned: Planned, folder: Path) -> Path:
    """All files into ``folder``, the page last: a page that is there has its charts beside it."""
    page = _page(planned.answer)
    charts = folder / CHARTS_FOLDER
    charts.mkdir(parents=True, exist_ok=True)
    write_whole(folder / PLAN_FILE, msgspec.json.format(msgspec.json.encode(planned.answer)) + b"\n")
    write_traces(planned.nodes, planned.demand, folder)
    for section in page.sections:
        for chart in section.charts:
            write_whole(charts / f"{chart.name}.png", chart_png(chart))
    path = folder / PAGE_FILE
    write_whole(path, page_html(page).encode())
    return path


def _page(plan: HistoryPlan) -> Page:
    return Page(
        headline=_headline(plan),
        warnings=(f"this is {plan.forecast}.",) if plan.forecast else (),
        standings=_purchase(plan),
        sections=tuple(_sections(plan)),
        command="plan",
    )


def _headline(plan: HistoryPlan) -> Headline:
    levels = " and ".join(level.words for level in plan.levels)
    tasks = f"{plural(plan.tasks, 'task')} of {plan.source}"
    played = f"{tasks}, played {plan.replays} times by the scheduler's engine"
    wanted = (f"Wanted: {levels}.",) if levels else ()
    best = plan.best
    if best is None:
        title = (
            "No fleet of these types was found that holds the service level" if levels else "The fleet today"
        )
        return Headline(title, f"{played}.", wanted, ())
    monthly = amount(best.cost_micro * MONTH_HOURS / MICRO_UNITS, 2)
    title = f"{nodes_words(best)}: {monthly} {plan.currency} per month" if best.nodes else "Nothing to buy"
    sure = "every" if plan.is_cheapest else "not every"
    tiles = (
        Tile("Cost", f"{monthly}", f"{plan.currency} per month of 730 hours, for what is bought"),
        Tile("GPUs", count(best.gpus), "bought" if plan.today is None else "bought and there already"),
        *(
            Tile(
                f"p{one.level.percent} {class_words(one.level.task_class)}",
                duration(one.wait_s),
                f"wait at most; allowed are {duration(one.level.within_us / US_PER_S)}",
            )
            for one in best.levels
        ),
        Tile("Replays", count(plan.replays), f"{sure} fleet that costs less was ruled out"),
    )
    return Headline(title, f"{played}.", wanted, tiles)


def _purchase(plan: HistoryPlan) -> Table | None:
    if plan.best is None or not plan.best.nodes:
        return None
    return table(
        "What to buy",
        ["Type", "Nodes", "GPUs of each", "Where", f"{plan.currency} per hour"],
        [
            [
                one.instance_type,
                count(one.count),
                f"{one.gpus} x {one.gpu_model}",
                " ".join(part for part in (one.provider, one.zone or one.region, one.capacity_type) if part),
                amount(one.cost_micro / MICRO_UNITS, 4),
            ]
            for one in plan.best.nodes
        ],
    )


def _sections(plan: HistoryPlan) -> Iterator[Section]:
    for anchor, title, chart in (
        ("cost", "Cost against wait", cost_against_wait(plan)),
        ("sizes", "Waits by size of the fleet", waits_by_size(plan)),
        ("time", "Over time", over_time(plan)),
    ):
        if chart is not None:
            charts: tuple[Chart, ...] = (chart,)
            yield Section(anchor, title, charts)
    yield Section("numbers", "All figures", tables=tuple(_tables(plan)), facts=tuple(_facts(plan)))


def _tables(plan: HistoryPlan) -> Iterator[Table]:
    without = None if plan.without is None else plan.without.fleet
    named = (
        ("the fleet that is there", plan.today),
        (f"the fleet without {' and '.join(plan.without.pools)}" if plan.without else "", without),
        ("the fleet of the plan", plan.best),
    )
    for name, fleet in named:
        if fleet is not None:
            yield _waits_table(name, fleet)
    if plan.spot:
        yield table(
            "What goes on spot capacity, by expected loss against price",
            ["Queue", "GPUs", "of each", "models", "tasks", "on spot", "cheapest first", "why"],
            [
                [
                    one.queue,
                    count(one.gpus),
                    f"{one.gpu_milli / 1000:g}",
                    ", ".join(one.models) or "any",
                    count(one.tasks),
                    count(one.on_spot),
                    ", ".join(one.types),
                    one.why,
                ]
                for one in plan.spot
            ],
        )
    if plan.nothing_helps:
        yield table(
            "Tasks that no purchase of these types helps, which are left out",
            ["GPUs", "of each", "models", "tasks", "lacks"],
            [
                [
                    count(one.gpus),
                    f"{one.gpu_milli / 1000:g}",
                    ", ".join(one.models) or "any",
                    count(one.tasks),
                    one.why,
                ]
                for one in plan.nothing_helps
            ],
        )


def _waits_table(name: str, fleet: FleetFound) -> Table:
    rows = [(one, fleet.waits[one]) for one in CLASSES if one in fleet.waits]
    return table(
        f"How long tasks wait on {name}",
        ["Tasks", "started", "half", "90%", "99%", "longest", "never started"],
        [
            [
                class_words(one),
                count(waits.started),
                *(duration(figure) for figure in (waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s)),
                count(waits.never_started),
            ]
            for one, waits in rows
        ],
    )


def _facts(plan: HistoryPlan) -> Iterator[tuple[str, str]]:
    yield "Prices", plan.catalogue
    for note in plan.notes:
        yield "Note", note
