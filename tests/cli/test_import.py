"""`gpufleet import`: what stands on which stream, and how it ends."""

import io
import json
import sys
from pathlib import Path

import pytest

from gpufleet.cli.main import main

CASES = Path(__file__).parents[1] / "migration" / "cases"


def test_manifests_and_report_go_to_different_streams(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "kueue", str(CASES / "kueue-old-names.yaml")]) == 0
    said = capsys.readouterr()
    assert said.out == (CASES / "kueue-old-names.out.yaml").read_text(encoding="utf-8")
    assert said.err == (CASES / "kueue-old-names.report.txt").read_text(encoding="utf-8")


def test_the_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "kueue", "--report=json", str(CASES / "kueue-old-names.yaml")]) == 0
    report = json.loads(capsys.readouterr().err)
    assert report["system"] == "Kueue"
    assert report["queues"] == ["shared", "team-a", "team-b"]
    assert {
        "object": "ClusterQueue team-a",
        "field": "spec.cohort",
        "verdict": "honoured",
        "reason": "the same",
        "becomes": "spec.parent",
    } in report["notes"]


def test_from_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = (CASES / "elasticquota-two-teams.yaml").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["import", "elasticquota", "--report=none", "-"]) == 0
    said = capsys.readouterr()
    assert said.out.count("kind: FleetQueue") == 3
    assert said.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["kueue", str(CASES / "kai-departments.yaml")], 2, "found Node, Queue.scheduling.run.ai"),
        (["kueue", str(CASES / "missing.yaml")], 2, "is not there"),
        (["slurm"], 2, "no such choice"),
        (["kueue", "--context=x", str(CASES / "kai-departments.yaml")], 2, "either files or a cluster"),
    ],
)
def test_what_cannot_be_done_is_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert main(["import", *arguments]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
