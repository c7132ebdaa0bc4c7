"""Texts of 200,000 characters in a manifest make no answer long."""

from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main

LONG = "x" * 200_000
MANIFEST = f"""
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {LONG}
  namespace: {LONG}
  labels: {{a: {LONG}, nvidia.com/gpu.product: {LONG}}}
  annotations: {{gpufleet.io/gpu-models: {LONG}, gpufleet.io/grant: {LONG}}}
spec:
  replicas: 3
  selector: {{matchLabels: {{a: {LONG}}}}}
  template:
    metadata: {{labels: {{a: {LONG}}}, annotations: {{gpufleet.io/gpu-fraction: {LONG}}}}}
    spec:
      nodeSelector: {{nvidia.com/gpu.product: {LONG}}}
      priorityClassName: {LONG}
      runtimeClassName: {LONG}
      containers:
        - name: {LONG}
          image: nvidia/cuda:{LONG}
          env: [{{name: NVIDIA_VISIBLE_DEVICES, value: {LONG}}}, {{name: HF_TOKEN, value: {LONG}}}]
          resources: {{limits: {{nvidia.com/gpu: COUNT}}, requests: {{nvidia.com/gpu: 2}}}}
"""


@pytest.mark.parametrize("count", ["1", LONG])
@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
def test_lint_says_no_more_of_a_long_text_than_of_a_short_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, count: str
) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(MANIFEST.replace("COUNT", count), encoding="utf-8")
    assert main(["lint", str(path), "--output", form]) in {0, 1, ExitCode.BAD_INPUT}
    said = "".join(capsys.readouterr())
    assert len(said) < 200_000
    assert "bug" not in said


@pytest.mark.parametrize(
    "line",
    [
        ["fit", LONG],
        ["lint", LONG],
        ["rerun", LONG],
        ["cuda", "--image", LONG, "--driver", "1", "--gpu", "x"],
    ],
)
def test_an_error_says_no_more_of_a_long_word(capsys: pytest.CaptureFixture[str], line: list[str]) -> None:
    assert main(line) in {ExitCode.BAD_INPUT, ExitCode.WORLD_FAILED}
    assert len("".join(capsys.readouterr())) < 50_000
