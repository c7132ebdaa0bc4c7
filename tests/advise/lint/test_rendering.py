"""Charts and Kustomizations are judged as helm and kubectl render them; what cannot be rendered is told."""

from pathlib import Path

import pytest

from gpufleet.advise.lint.inputs import find_inputs
from gpufleet.cli.main import main
from tests.chart import programs
from tests.localkube.cluster import program

CHART = "apiVersion: v2\nname: server\nversion: 0.1.0\n"
TEMPLATE = """\
apiVersion: v1
kind: Pod
metadata: {name: {{ .Release.Name }}}
spec:
  containers:
    - name: main
      image: own/server:1
      resources: {requests: {nvidia.com/gpu: {{ .Values.gpus }}}}
"""
BASE = TEMPLATE.replace("{{ .Release.Name }}", "server").replace("{{ .Values.gpus }}", "1")
PATCH = """\
apiVersion: v1
kind: Pod
metadata: {name: server}
spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}
"""


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def a_chart(folder: Path, values: str = "gpus: 1\n", template: str = TEMPLATE) -> Path:
    chart = folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(CHART)
    (chart / "values.yaml").write_text(values)
    (chart / "templates" / "pod.yaml").write_text(template)
    return chart


def a_kustomization(folder: Path, patch: str = PATCH) -> Path:
    kustomization = folder / "overlay"
    kustomization.mkdir()
    (kustomization / "kustomization.yaml").write_text(
        "resources: [pod.yaml]\npatches: [{path: patch.yaml}]\n"
    )
    (kustomization / "pod.yaml").write_text(BASE)
    (kustomization / "patch.yaml").write_text(patch)
    return kustomization


def test_a_chart_is_judged_as_helm_renders_it(
    tmp_path: Path, only: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (only / "helm").symlink_to(programs.program(programs.HELM))
    chart = a_chart(tmp_path)
    assert main(["lint", str(chart)]) == 1
    said = capsys.readouterr()
    assert f"helm template {chart}:" in said.out
    assert "GPU001" in said.out
    assert "templates" not in said.err


def test_a_chart_that_helm_cannot_render_is_not_judged_and_says_why(tmp_path: Path, only: Path) -> None:
    (only / "helm").symlink_to(programs.program(programs.HELM))
    chart = a_chart(tmp_path, template='{{ required "gpus are needed" .Values.count }}\n')
    found = find_inputs([str(chart)])
    assert not any("templates" in one.name or one.name.startswith("helm") for one in found.sources)
    (notice,) = found.notices
    assert f"{chart}/templates is not judged" in notice
    assert "gpus are needed" in notice
    assert f"helm template {chart} | gpufleet lint - reads it" in notice


def test_without_helm_a_line_says_that_templates_are_not_judged(tmp_path: Path, only: Path) -> None:
    assert not any(only.iterdir())
    chart = a_chart(tmp_path)
    (notice,) = find_inputs([str(chart)]).notices
    assert notice == (
        f"{chart}/templates is not judged, since helm is not on PATH: "
        f"helm template {chart} | gpufleet lint - reads it"
    )


def test_a_chart_of_charts_alone_is_rendered_with_all_of_them(tmp_path: Path, only: Path) -> None:
    (only / "helm").symlink_to(programs.program(programs.HELM))
    umbrella = tmp_path / "umbrella"
    (umbrella / "charts").mkdir(parents=True)
    (umbrella / "Chart.yaml").write_text(CHART.replace("server", "umbrella"))
    a_chart(umbrella / "charts")
    found = find_inputs([str(umbrella)])
    (rendered,) = found.sources
    assert rendered.name == f"helm template {umbrella}"
    assert "own/server:1" in rendered.text
    assert found.notices == []


def test_charts_below_one_that_cannot_be_rendered_are_rendered_alone(tmp_path: Path, only: Path) -> None:
    (only / "helm").symlink_to(programs.program(programs.HELM))
    chart = a_chart(tmp_path, template='{{ required "gpus are needed" .Values.count }}\n')
    below = a_chart(chart / "charts")
    found = find_inputs([str(chart)])
    assert f"helm template {below}" in {one.name for one in found.sources}
    (notice,) = found.notices
    assert f"{chart}/templates is not judged" in notice


def test_what_helm_renders_has_no_file_to_mend(tmp_path: Path, only: Path) -> None:
    (only / "helm").symlink_to(programs.program(programs.HELM))
    chart = a_chart(tmp_path)
    assert main(["lint", "--fix", str(chart)]) == 0
    assert (chart / "templates" / "pod.yaml").read_text() == TEMPLATE


def test_a_kustomization_is_judged_as_it_is_built(
    tmp_path: Path, only: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The base asks for one GPU by its request, the patch limits two: neither is wrong without the other."""
    (only / "kubectl").symlink_to(program("kubectl"))
    folder = a_kustomization(tmp_path)
    assert main(["lint", "-k", str(folder)]) == 1
    assert f"kustomize build {folder}:" in capsys.readouterr().out


def test_a_kustomization_that_cannot_be_built_is_refused_with_its_reason(
    tmp_path: Path, only: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (only / "kubectl").symlink_to(program("kubectl"))
    folder = a_kustomization(tmp_path)
    (folder / "pod.yaml").unlink()
    assert main(["lint", "-k", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "--kustomize: kubectl kustomize" in said
    assert "pod.yaml" in said


def test_without_kustomize_and_kubectl_the_way_out_is_told(
    tmp_path: Path, only: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not any(only.iterdir())
    folder = a_kustomization(tmp_path)
    assert main(["lint", "--kustomize", str(folder)]) == 2
    assert "neither kustomize nor kubectl is on PATH" in capsys.readouterr().err


def test_what_is_built_cannot_be_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_kustomization(tmp_path)
    assert main(["lint", "-k", str(folder), "--fix"]) == 2
    assert "either --kustomize or --fix" in capsys.readouterr().err
