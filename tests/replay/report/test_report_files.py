"""What a report says and which files it is, read without a browser."""

import re
from html import unescape
from pathlib import Path

import msgspec
import pytest

from gpufleet.replay.report import write_report
from gpufleet.replay.report.figures import ABSENT
from gpufleet.replay.report.saturate_headline import saturate_headline
from gpufleet.replay.report.timeline_headline import timeline_headline
from gpufleet.replay.results import MeanDeviation, SweepResult
from tests.replay.report.edge_sweeps import HOSTILE_NAMES, SWEEPS, Written, empty_timeline
from tests.replay.report.sample_sweeps import sample_sweep

PNG_START = b"\x89PNG\r\n\x1a\n"
LARGEST_PAGE_BYTES = 2_200_000


def shown(page: Path) -> str:
    """The page's text as read: without scripts, styles and tags, in single spaces."""
    html = re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


@pytest.mark.parametrize("name", SWEEPS)
def test_every_result_makes_a_page_and_its_charts(report_of: Written, name: str) -> None:
    files = report_of(name)
    assert files.page.stat().st_size < LARGEST_PAGE_BYTES
    assert all(path.read_bytes().startswith(PNG_START) for path in files.charts)
    assert sorted(files.page.parent.rglob("*.part")) == []
    listed = {path for path in files.page.parent.rglob("*") if path.is_file()}
    assert listed == {files.page, *files.charts}


@pytest.mark.parametrize("name", SWEEPS)
def test_the_page_asks_the_network_for_nothing(report_of: Written, name: str) -> None:
    html = report_of(name).page.read_text(encoding="utf-8")
    tags = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", html, flags=re.DOTALL)
    assert re.findall(r"<[^>]*\s(?:src|href)=[\"'](?!#)[^>]*>", tags) == []
    assert "default-src 'none'" in unescape(html)


def test_the_headline_compares_means_over_seeds(report_of: Written) -> None:
    text = shown(report_of("usual").page)
    for load in ("100", "130"):
        best, other = (one.alloc_pct[load].mean for one in SWEEPS["usual"].policies[:2])
        lead = (best - other) / 100 * SWEEPS["usual"].gpus
        assert f"{lead:,.0f} fewer" in text, load
    assert "fgd kept the most GPUs busy" in text
    assert "18 runs" in text


def test_figures_are_those_of_the_summary(report_of: Written) -> None:
    text = shown(report_of("usual").page)
    for summary in SWEEPS["usual"].policies:
        for by_load in (summary.alloc_pct, summary.frag_pct_of_cluster):
            for found in by_load.values():
                assert f"{found.mean:.2f} ± {found.deviation:.2f}" in text
        assert summary.first_refusal_load is not None
        assert f"{summary.first_refusal_load.mean:.1f} ± " in text


def test_one_seed_shows_no_deviation_and_no_rival(report_of: Written) -> None:
    text = shown(report_of("one").page)
    assert "±" not in text.replace("mean ± deviation", "")
    assert "more than" not in text


def test_an_interrupted_replay_warns_and_names_what_is_missing(report_of: Written) -> None:
    text = shown(report_of("interrupted").page)
    assert "interrupted" in text
    assert "random, seed 42 and random, seed 43" in text
    assert "interrupted" not in shown(report_of("usual").page)


def test_nothing_finished_says_so(report_of: Written) -> None:
    assert "No run was finished" in shown(report_of("nothing finished").page)


def test_a_cluster_that_refused_none_says_so(report_of: Written) -> None:
    text = shown(report_of("nothing refused").page)
    assert "fgd and best-fit refused none." in text
    assert f"First task refused at {ABSENT}" in text


def test_a_timeline_without_tasks_has_dashes(report_of: Written) -> None:
    text = shown(report_of("empty timeline").page)
    assert f"Mean wait {ABSENT}" in text
    assert report_of("empty timeline").charts == ()


def test_a_timeline_leaves_out_the_charts_over_load(report_of: Written) -> None:
    names = [path.stem for path in report_of("timeline").charts]
    assert names == ["waits-by-class", "queue-over-time", "allocation-over-time", "money-over-time"]


def test_names_from_input_are_shown_and_never_markup(report_of: Written) -> None:
    html = report_of("hostile").page.read_text(encoding="utf-8")
    assert not any(name in html for name in HOSTILE_NAMES[:3])
    assert html.count("<script") == 3
    assert "window.hacked = 1</script>" in shown(report_of("hostile").page)


def with_alloc(sweep: SweepResult, policy: str, value: MeanDeviation) -> SweepResult:
    policies = [
        msgspec.structs.replace(one, alloc_pct=dict.fromkeys(one.alloc_pct, value))
        if one.policy == policy
        else one
        for one in sweep.policies
    ]
    return msgspec.structs.replace(sweep, policies=policies)


def test_a_lead_within_the_deviation_is_told_as_such() -> None:
    sweep = sample_sweep(("fgd", "best-fit"))
    sweep = with_alloc(sweep, "fgd", MeanDeviation(95.0, 0.5, 3))
    sweep = with_alloc(sweep, "best-fit", MeanDeviation(94.7, 0.2, 3))
    found = saturate_headline(sweep)
    assert found is not None
    assert "lead over best-fit is no larger than the deviation between seeds" in found.sentences[1]


def test_who_starts_more_tasks_ranks_before_who_lets_them_wait_less() -> None:
    sweep = sample_sweep(("quick", "thorough"), (42,), "timeline")
    quick, thorough = sweep.runs
    assert quick.timeline is not None
    assert thorough.timeline is not None
    waits = quick.timeline.waits_by_class["all"]
    quick_waits = msgspec.structs.replace(waits, started=100, never_started=900, mean_s=1.0)
    thorough_waits = msgspec.structs.replace(waits, started=900, never_started=100, mean_s=60.0)
    runs = [
        msgspec.structs.replace(
            run, timeline=msgspec.structs.replace(timeline, waits_by_class={"all": all_waits})
        )
        for run, timeline, all_waits in (
            (quick, quick.timeline, quick_waits),
            (thorough, thorough.timeline, thorough_waits),
        )
    ]
    found = timeline_headline(msgspec.structs.replace(sweep, runs=runs))
    assert found is not None
    assert found.title == "thorough started the most tasks: 900 of 1,000 tasks, 800 more than quick"


def test_a_report_replaces_an_older_one(tmp_path: Path) -> None:
    first = write_report(empty_timeline(), tmp_path)
    first.page.write_text("old", encoding="utf-8")
    again = write_report(empty_timeline(), tmp_path)
    assert again == first
    assert again.page.read_text(encoding="utf-8") != "old"
