"""The table of guides is whole, its page shows each file, and lint finds in each what the table says."""

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.exporter.counters import DEFAULT, SERVED
from gpufleet.doctor.checks import all_checks
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.lint.rules import all_rules
from gpufleet.lint.source.parse import RENDER_FIRST
from tests.chart.standards_apps import copied, rendered_app, update
from tests.conventions.project import ROOT
from tests.guides.entries import ENTRIES, Entry, NoObject
from tests.guides.guide_files import FOLDER, NOT_YET, PAGE, objects
from tests.guides.variant_objects import Variant
from tests.guides.variants import VARIANTS
from tests.lacking import lacking
from tests.lint.linting import found, pod, report_of

TEXT = PAGE.read_text(encoding="utf-8")
PITFALLS = TEXT.partition("## The usual pitfalls")[2].partition("\n## ")[0]
WATCHED = ("GPU_UTIL", "MEM_COPY_UTIL", "FB_USED", "POWER_USAGE", "SM_CLOCK", "GPU_TEMP")
"""What guides have people watch, each as DCGM_FI_DEV_..."""

ALIASES = ("dcgm_gpu_utilization", "dcgm_fb_used_bytes", "dcgm_fb_total_bytes", "dcgm_power_usage_watts")
SERVED_BY_DEFAULT = {counter.name for counter in DEFAULT}


def test_every_file_of_the_folder_is_in_the_table_once() -> None:
    assert sorted(one.file for one in ENTRIES) == sorted(path.name for path in FOLDER.iterdir())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one.file)
def test_the_page_shows_each_file(entry: Entry) -> None:
    assert f"examples/guides/{entry.file}" in TEXT


@pytest.mark.parametrize(
    "entry", [one for one in ENTRIES if one.simulated != NoObject()], ids=lambda one: one.file
)
def test_lint_finds_what_the_table_says(entry: Entry) -> None:
    assert found((FOLDER / entry.file).read_text(encoding="utf-8")) == sorted(entry.lint)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.name)
def test_lint_finds_in_a_variant_what_its_row_says(variant: Variant) -> None:
    assert found(msgspec.yaml.encode(variant.object).decode()) == sorted(variant.lint)


@pytest.mark.parametrize(
    "resource",
    [
        *("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"),
        *(f"nvidia.com/mig-{profile}" for profile in ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")),
    ],
)
def test_lint_knows_every_resource_of_guides(resource: str) -> None:
    assert found(pod(limits=f"{resource}: 1")) == []
    assert found(pod(limits=f"{resource}: 0.5")) != []


def test_a_template_of_the_standards_chart_is_read_once_it_is_rendered(tmp_path: Path) -> None:
    template = ROOT / "examples" / "standards" / "inference" / "templates" / "deployment.yaml"
    text = template.read_text(encoding="utf-8")
    assert 'include "standards.gpu.tolerations"' in text
    (problem,) = report_of(text).problems
    assert str(problem).endswith(RENDER_FIRST)
    here = copied(tmp_path)
    update(here)
    rendered = rendered_app(here, "inference")
    assert not report_of(rendered).problems
    assert found(rendered) == []


def metrics_of(text: str) -> set[str]:
    """The names of metrics in expressions."""
    return set(re.findall(r"\bDCGM_\w+", text))


@pytest.mark.parametrize("file", ["queries.promql", "alert-underutilised.yaml"])
def test_queries_and_alerts_ask_for_what_the_agent_serves(file: str) -> None:
    asked = metrics_of((FOLDER / file).read_text(encoding="utf-8"))
    assert asked
    assert asked <= SERVED_BY_DEFAULT


def test_the_queries_show_all_that_guides_have_people_watch() -> None:
    watched = {f"DCGM_FI_DEV_{name}" for name in WATCHED}
    assert watched <= metrics_of((FOLDER / "queries.promql").read_text(encoding="utf-8"))


def test_promtool_takes_the_alert_and_each_query(tmp_path: Path) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        lacking("there is no promtool on PATH; it comes with Debian's package prometheus")
    (alert,) = objects("alert-underutilised.yaml")
    lines = (FOLDER / "queries.promql").read_text(encoding="utf-8").splitlines()
    queries = [line for line in lines if not line.startswith("#")]
    records = [{"record": f"guide:{number}", "expr": query} for number, query in enumerate(queries)]
    groups = [*alert["spec"]["groups"], {"name": "queries", "rules": records}]
    rules = tmp_path / "rules.yaml"
    rules.write_bytes(msgspec.yaml.encode({"groups": groups}))
    done = subprocess.run([tool, "check", "rules", str(rules)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(queries) + 1} rules found" in done.stdout


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_on_the_list_of_what_is_not_there_until_it_is_served(alias: str) -> None:
    file = ROOT / "charts" / "gpufleet" / "monitoring" / "dcgm-names.yaml"
    groups = msgspec.yaml.decode(file.read_bytes())["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"]}
    assert (alias in SERVED or alias in recorded) != (f"`{alias}`" in NOT_YET)


def test_dashboards_are_on_the_list_of_what_is_not_there_until_one_ships() -> None:
    shipped = [path for path in ROOT.glob("charts/**/*.json") if "panels" in path.read_text(encoding="utf-8")]
    assert bool(shipped) != ("dashboards for Grafana" in NOT_YET)


def test_each_pitfall_names_answers_that_there_are() -> None:
    named = set(re.findall(r"`([^`]+)`", PITFALLS)) | set(re.findall(r"\bGPU\d{3}\b", PITFALLS))
    known = {rule.id for rule in all_rules()} | {check.id for check in all_checks()}
    known |= {reason.name for reason in TABLE.reasons}
    rows = [row for row in PITFALLS.splitlines() if row.startswith("| ")][2:]
    assert len(rows) == 9
    assert named & known
    for row in rows:
        words = set(re.findall(r"`([a-z-]+)`|\b(GPU\d{3})\b", row))
        assert {one for pair in words for one in pair if one} <= known, row
