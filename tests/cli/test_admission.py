"""`gpufleet admission plan`: its text, its JSON, and how it ends."""

import json
from pathlib import Path

import pytest

from gpufleet.cli.main import main

WORK = """
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {gpufleet.io/managed: "true", gpufleet.io/admission: warn}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team
  annotations: {ignore.lint.gpufleet.io/GPU006: "until 2999-01-31: the driver of the card needs it"}
spec:
  template:
    spec:
      containers:
      - name: main
        image: example.com/train
        securityContext: {privileged: true}
        resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: team}
spec:
  schedulerName: gpufleet
  tolerations: [{operator: Exists}]
  containers:
  - {name: main, image: "example.com/train:1", resources: {limits: {nvidia.com/gpu: 1}}}
"""


@pytest.fixture
def work(tmp_path: Path) -> str:
    path = tmp_path / "work.yaml"
    path.write_text(WORK)
    return str(path)


def test_every_kind_of_line(work: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admission", "plan", work]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "Namespace team (admission warn -> deny): 2 objects with pods, 1 would be refused, "
        "0 warned of, 1 completed"
    )
    assert lines[1] == "  Job train: its next pods are refused"
    assert lines[2].startswith("    refused, its pods alone: GPU006 Privileged GPU workload: container main")
    assert any(one.startswith("    warned of: GPU011 ") for one in lines)
    assert "    excepted from GPU006 until 2999-01-31: the driver of the card needs it" in lines
    assert "    completed  spec.schedulerName: not there -> gpufleet" in lines
    assert lines[-1] == "Nothing was changed."


def test_a_mode_that_refuses_nothing_ends_with_code_0(work: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admission", "plan", "--mode", "warn", work]) == 0
    assert "(admission warn -> warn)" in capsys.readouterr().out


def test_the_json_has_the_same(work: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admission", "plan", "-o", "json", "--images=deny", "--registry=docker.io", work]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "gpufleet.io/admission-plan/v1"
    (team,) = told["namespaces"]
    assert (team["label"], team["mode"], team["imagesMode"], team["refused"]) == ("warn", "deny", "deny", 2)
    assert {one["rule"] for one in team["workloads"][0]["findings"]} == {"GPU006", "GPU011", "images"}
    assert team["workloads"][0]["pods"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--context=x"], "files are looked at without a cluster"),
        (["--pool-taint=two words"], "--pool-taint"),
        (["--registry=https://example.com"], "--registry"),
        (["--without=everything"], "--without"),
    ],
)
def test_what_cannot_be_is_refused(
    work: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["admission", "plan", *arguments, work]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "{apiVersion: v1, kind: Pod, metadata: 3}",
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: 3}}",
        "{apiVersion: v1, kind: Pod, metadata: {name: a, ownerReferences: 3}}",
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: [3]}}",
    ],
)
def test_a_file_of_what_no_server_would_take_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert main(["admission", "plan", str(path)]) == 2
    assert "Expected" in capsys.readouterr().err


def test_a_plan_without_objects_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    assert main(["admission", "plan", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["No object with pods is there.", "Nothing was changed."]
