"""Writes the report of a sweep: what stands on the page in which order, and which files there are.

``page`` makes the HTML, ``raster`` the PNG files; every file appears whole or not at all.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.files.atomic_write import write_whole
from gpufleet.replay.report.class_charts import class_charts
from gpufleet.replay.report.curve_charts import allocation_charts, fragmentation_charts
from gpufleet.replay.report.figures import listed, plural
from gpufleet.replay.report.headline import Headline, replayed
from gpufleet.replay.report.idle_charts import idle_charts
from gpufleet.replay.report.money_charts import money_charts
from gpufleet.replay.report.node_map import node_map_table, node_maps
from gpufleet.replay.report.number_tables import (
    how_it_was_run,
    ranking_table,
    run_classes_table,
    runs_table,
    skipped_rows_table,
    summary_tables,
)
from gpufleet.replay.report.page import Page, Section, page_html
from gpufleet.replay.report.raster import chart_png, node_maps_png
from gpufleet.replay.report.saturate_headline import saturate_headline
from gpufleet.replay.report.timeline_charts import series_charts
from gpufleet.replay.report.timeline_headline import timeline_headline, timeline_ranking_table
from gpufleet.replay.report.wait_charts import wait_charts
from gpufleet.replay.results import SweepResult

REPORT_FILE = "report.html"
CHARTS_FOLDER = "charts"
NODE_MAPS_FILE = "nodes-at-the-end.png"


class ReportFiles(msgspec.Struct, frozen=True):
    """The files of a report: the page, and the PNG of each chart in the order of the page."""

    page: Path
    charts: tuple[Path, ...]


def _warnings(result: SweepResult) -> tuple[str, ...]:
    found = []
    if not result.complete:
        missing = f" Not here: {listed(result.missing)}." if result.missing else ""
        found.append(f"this replay was interrupted; means are over the runs that finished.{missing}")
    if result.skipped_rows:
        rows = plural(len(result.skipped_rows), "row")
        found.append(f"left out of the input files: {rows}, listed at the end.")
    return tuple(found)


def _chart_sections(result: SweepResult) -> list[Section]:
    titled = (
        ("waits", "Waiting times", wait_charts(result)),
        ("time", "Over time", series_charts(result)),
        ("money", "What it costs", money_charts(result)),
        ("allocation", "Allocation", allocation_charts(result)),
        ("fragments", "Fragmentation", fragmentation_charts(result)),
        ("idle", "What blocks the rest", idle_charts(result)),
        ("classes", "Acceptance", class_charts(result)),
    )
    return [Section(anchor, title, tuple(charts)) for anchor, title, charts in titled if charts]


def _number_sections(result: SweepResult) -> list[Section]:
    run_classes = run_classes_table(result)
    folded = [runs_table(result)] + ([run_classes] if run_classes is not None else [])
    skipped = (skipped_rows_table(result),) if result.skipped_rows else ()
    return [
        Section(
            "numbers",
            "All figures",
            tables=tuple(summary_tables(result)),
            folded_tables=tuple(folded),
        ),
        Section(
            "how",
            "How it was run",
            facts=tuple(how_it_was_run(result)),
            folded_tables=skipped,
        ),
    ]


def _headline(result: SweepResult) -> Headline:
    found = timeline_headline(result) or saturate_headline(result)
    return found or Headline("No run was finished", replayed(result), (), ())


def _page(result: SweepResult) -> Page:
    maps = tuple(node_maps(result))
    nodes = Section("nodes", "The nodes at the end", maps=maps, maps_table=node_map_table(result))
    return Page(
        headline=_headline(result),
        warnings=_warnings(result),
        standings=timeline_ranking_table(result) or ranking_table(result),
        sections=(
            *_chart_sections(result),
            *([nodes] if maps else []),
            *_number_sections(result),
        ),
    )


def _write_charts(page: Page, folder: Path) -> Iterator[Path]:
    for section in page.sections:
        for chart in section.charts:
            path = folder / f"{chart.name}.png"
            write_whole(path, chart_png(chart))
            yield path
        if section.maps:
            path = folder / NODE_MAPS_FILE
            write_whole(path, node_maps_png(section.maps))
            yield path


def write_report(result: SweepResult, folder: Path) -> ReportFiles:
    """Write the report of ``result`` into ``folder``, which is made if it is not there.

    The page comes last, so that a page that is there has all its charts beside it.
    """
    page = _page(result)
    charts_folder = folder / CHARTS_FOLDER
    charts_folder.mkdir(parents=True, exist_ok=True)
    charts = tuple(_write_charts(page, charts_folder))
    page_path = folder / REPORT_FILE
    write_whole(page_path, page_html(page).encode())
    return ReportFiles(page_path, charts)
