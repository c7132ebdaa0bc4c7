"""What is accepted is set apart with its reason, and comes back when its time is over."""

import datetime as dt
import json
from pathlib import Path

import pytest

from gpufleet.advise.lint.baseline import baseline_text, read_baseline
from gpufleet.advise.lint.command import LintOptions, LintOutcome, run
from gpufleet.advise.lint.settings import read_settings
from gpufleet.lint.rules import all_rules
from gpufleet.lint.run import lint, read
from gpufleet.lint.source.text import SourceText
from gpufleet.model.model_errors import InputError
from tests.lint.linting import pod

TODAY = dt.date(2026, 11, 22)
UNPINNED = "image: nvidia/cuda"


def outcome(folder: Path, text: str, **wishes: object) -> LintOutcome:
    file = folder / "a.yaml"
    file.write_text(text, encoding="utf-8")
    return run([str(file)], LintOptions(TODAY, **wishes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        pod(f"{UNPINNED}  # gpufleet:ignore GPU011: rebuilt each night"),
        pod(
            f"# gpufleet:ignore GPU005, GPU011 until 2026-11-22: until the registry is up\n# more\n{UNPINNED}"
        ),
        pod(UNPINNED).replace(
            "name: one", "name: one\n  annotations: {ignore.lint.gpufleet.io/GPU011: nightly}"
        ),
    ],
)
def test_a_reason_at_the_place_is_accepted(tmp_path: Path, text: str) -> None:
    done = outcome(tmp_path, text)
    assert (done.code, done.messages) == (0, ())
    assert "nothing found in 1 object of 1 file; 1 finding suppressed" in done.report


def test_a_suppression_ends_on_its_date(tmp_path: Path) -> None:
    done = outcome(tmp_path, pod(f"{UNPINNED} # gpufleet:ignore GPU011 until 2026-11-21: soon"))
    assert done.code == 1
    assert "its suppression ended on 2026-11-21" in done.report


@pytest.mark.parametrize("excuse", ["", ":", "until 2026-12-01", "until soon: later"])
def test_a_suppression_without_a_reason_does_not_count(tmp_path: Path, excuse: str) -> None:
    done = outcome(tmp_path, pod(f"{UNPINNED} # gpufleet:ignore GPU011 {excuse}"))
    assert done.code == 2
    assert "GPU011" in done.report
    assert "the suppression of GPU011" in done.messages[0]


def test_what_is_accepted_is_not_mended(tmp_path: Path) -> None:
    text = pod("securityContext:\n  privileged: true # gpufleet:ignore GPU006: profiles the hardware")
    outcome(tmp_path, text, fixes=True)
    assert (tmp_path / "a.yaml").read_text(encoding="utf-8") == text


def test_a_project_weighs_rules_its_own_way(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "fail-on: error\nexclude: ['vendor/*']\nrules:\n"
        "  GPU011: {severity: error}\n"
        "  GPU006: {severity: ignore, reason: one tenant, until: '2026-12-31'}\n",
        encoding="utf-8",
    )
    done = outcome(tmp_path, pod(f"{UNPINNED}\nsecurityContext: {{privileged: true}}"), settings=settings)
    assert done.code == 1
    assert "error GPU011" in done.report
    assert "1 finding suppressed" in done.report


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules: {GPU999: {severity: info}}", "rules.GPU999: no such rule"),
        ("rules: {GPU011: {severity: ignore}}", "rules.GPU011.reason: a rule is left out without a reason"),
        ("rules: {GPU011: {severity: off}}", "means different things to different readers of YAML"),
        ("rules: {GPU011: {severity: info, until: soon}}", "rules.GPU011.until: no date, found 'soon'"),
        ("fail_on: error", "expected a known field; did you mean fail-on?"),
    ],
)
def test_a_mistake_in_the_settings_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refusal:
        read_settings(file, frozenset(rule.id for rule in all_rules()))
    assert told in str(refusal.value)


def test_what_a_baseline_knows_does_not_count_and_what_is_new_does(tmp_path: Path) -> None:
    baseline = tmp_path / "known.json"
    outcome(tmp_path, pod(UNPINNED), new_baseline=baseline)
    moved = "# a line more\n" + pod(UNPINNED)
    assert outcome(tmp_path, moved, baseline=baseline).code == 0
    more = moved + "---\n" + pod(UNPINNED).replace("name: one", "name: two")
    done = outcome(tmp_path, more, baseline=baseline, form="json")
    assert done.code == 1
    assert [one["object"] for one in json.loads(done.report)["findings"]] == ["Pod two"]


def test_a_baseline_reads_as_it_was_written(tmp_path: Path) -> None:
    report = lint([read(SourceText("a.yaml", pod(UNPINNED) + "---\n" + pod(UNPINNED)))], all_rules())
    file = tmp_path / "known.json"
    file.write_text(baseline_text(report.findings), encoding="utf-8")
    assert set(read_baseline(file).values()) == {2}
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(InputError):
        read_baseline(file)
