"""``gpufleet lint`` as people and scripts call it."""

import json
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from tests.lint.linting import pod

GOOD = pod("image: nvidia/cuda:12.3.2-runtime-ubuntu22.04")
WARNED = pod("image: nvidia/cuda")
WRONG = pod("image: nvidia/cuda:12.3.2-runtime-ubuntu22.04", limits="nvidia.com/gpu: many")


def written(folder: Path, **texts: str) -> str:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (GOOD, [], 0),
        (WARNED, [], 1),
        (WARNED, ["--fail-on", "error"], 0),
        (WRONG, ["--fail-on", "error"], 1),
        (WRONG, ["--fail-on", "never"], 0),
        ("kind: [", [], 2),
    ],
)
def test_the_code_says_how_it_ended(tmp_path: Path, text: str, options: list[str], code: int) -> None:
    assert main(["lint", written(tmp_path, one=text), *options]) == code


def test_nothing_to_lint_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint"]) == ExitCode.BAD_INPUT
    assert "name a file or folder" in capsys.readouterr().err


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    assert main(["lint", str(tmp_path / "none.yaml")]) == ExitCode.BAD_INPUT


def test_the_report_is_json_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", written(tmp_path, a=WRONG, b="a: &x [*x]"), "-o", "json"])
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "gpufleet.io/lint/v1"
    assert report["counts"] == {"error": 1, "warning": 0, "info": 0}
    (finding,) = report["findings"]
    assert finding["rule"] == "GPU002"
    assert finding["place"] == {"file": str(tmp_path / "a.yaml"), "line": 11, "column": 11}
    assert finding["path"] == 'spec.containers[0].resources.limits["nvidia.com/gpu"]'
    (problem,) = report["problems"]
    assert problem["place"]["column"] == 8


def test_a_folder_is_read_without_templates_and_other_yaml(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    written(chart, Chart="apiVersion: v2\nname: chart\n", values="gpus: 1\n")
    written(chart / "templates", pod="{{ if .Values.gpus }}")
    (tmp_path / ".hidden").mkdir()
    written(tmp_path / ".hidden", bad="[")
    assert main(["lint", written(tmp_path, good=GOOD)]) == 0
    told = capsys.readouterr()
    assert "helm template" in told.err
    assert "nothing found in 1 object of 2 files" in told.out


def test_fix_writes_and_diff_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\ufeff" + pod("image: a:1\nenv:\n  - {name: CUDA_VISIBLE_DEVICES, value: '1'}  # old").replace(
        "\n", "\r\n"
    )
    file = tmp_path / "a.yaml"
    file.write_bytes(text.encode())
    assert main(["lint", str(file), "--fix", "--diff"]) == 1
    assert file.read_bytes() == text.encode()
    assert "-      env:" in capsys.readouterr().out
    assert main(["lint", str(file), "--fix"]) == 0
    assert file.read_bytes() == ("\ufeff" + pod("image: a:1").replace("\n", "\r\n")).encode()


def test_standard_input_is_mended_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "in"
    known, ends = "command: [nvidia-smi]", "restartPolicy: Never"
    file.write_text(pod(f"{known}\nsecurityContext: {{privileged: true}}", ends), encoding="utf-8")
    with file.open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["lint", "-", "--fix"]) == 0
    told = capsys.readouterr()
    assert told.out == pod(known, ends)
    assert "nothing found in 1 object of 1 file" in told.err


def test_an_unknown_rule_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--explain", "GPU0021"]) == ExitCode.BAD_INPUT
    assert "GPU021?" in capsys.readouterr().err
    assert main(["lint", "--explain", "gpu021"]) == 0
    assert capsys.readouterr().out.startswith("# GPU021: ")
