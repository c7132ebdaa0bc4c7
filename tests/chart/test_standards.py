"""Six decisions, and what three applications have from the standards chart for them."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import main
from tests.chart.rendering import Object, helm
from tests.chart.standards_apps import (
    APPS,
    CONVENTIONS,
    container,
    copied,
    objects,
    pod,
    refusal,
    rendered_app,
    template_metadata,
    update,
)
from tests.conventions.project import ROOT

CHART = ROOT / "charts" / "standards"
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "standards.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^\$ (helm .*)\n((?:(?!\$ |```).*\n)*)", PAGE, flags=re.MULTILINE)
SPOT_LABELS = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The applications with the chart as it is."""
    folder = copied(tmp_path_factory.mktemp("standards"))
    update(folder)
    return folder


def terms(pod: Object) -> set[tuple[str, str, str]]:
    """What the pod's node must be: key, operator, value."""
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (one,) = required["nodeSelectorTerms"]
    return {(its["key"], its["operator"], *its["values"]) for its in one["matchExpressions"]}


def test_there_are_at_most_six_decisions() -> None:
    decisions = SCHEMA["properties"]["gpu"]["properties"]
    assert set(decisions) == {"class", "amount", "kind", "team", "spot", "isolation"}
    assert set(SCHEMA["properties"]) == {"global", "gpu"}
    assert all(len(its["description"]) > 10 for its in decisions.values())


def test_the_served_model_has_a_whole_large_gpu_off_spot(here: Path) -> None:
    its = pod(here, "inference")
    assert its["containers"][0]["resources"] == {
        "requests": {"cpu": "12", "memory": "96Gi"},
        "limits": {"memory": "96Gi", "nvidia.com/gpu": "1"},
    }
    assert terms(its) == {
        ("nvidia.com/gpu.memory", "Gt", "78000"),
        ("nvidia.com/gpu.memory", "Lt", "83000"),
        *((key, "NotIn", value) for key, value in SPOT_LABELS.items()),
    }
    assert its["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert its["runtimeClassName"] == "nvidia"
    assert (its["schedulerName"], its["priorityClassName"]) == ("gpufleet", "gpu-inference")
    assert its["terminationGracePeriodSeconds"] == 60


def test_training_on_spot_prefers_it_and_has_time_to_end(here: Path) -> None:
    its = pod(here, "training")
    # Four GPUs: four times 12 processors and 96 GiB, a quarter of which is for /dev/shm.
    assert its["containers"][0]["resources"] == {
        "requests": {"cpu": "48", "memory": "384Gi"},
        "limits": {"memory": "384Gi", "nvidia.com/gpu": "4"},
    }
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "96Gi"}} in its["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in its["containers"][0]["volumeMounts"]  # noqa: S108
    assert {term[0] for term in terms(its)} == {"nvidia.com/gpu.memory"}
    preferred = its["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert {one["preference"]["matchExpressions"][0]["key"] for one in preferred} == set(SPOT_LABELS)
    assert [one["key"] for one in its["tolerations"]] == [
        "nvidia.com/gpu",
        "cloud.google.com/gke-spot",
        "kubernetes.azure.com/scalesetpriority",
    ]
    assert its["terminationGracePeriodSeconds"] == 120
    assert (
        "annotations" not in template_metadata(here, "training")
        or not template_metadata(here, "training")["annotations"]
    )


def test_training_elsewhere_is_left_alone_by_consolidation(here: Path) -> None:
    metadata = template_metadata(here, "training", {"spot": False})
    assert metadata["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}


@pytest.mark.parametrize(
    ("amount", "resource"),
    [
        (0.1, "nvidia.com/mig-1g.10gb"),
        (0.125, "nvidia.com/mig-1g.10gb"),
        (0.2, "nvidia.com/mig-2g.20gb"),
        ("0.25", "nvidia.com/mig-2g.20gb"),
        (0.5, "nvidia.com/mig-3g.40gb"),
    ],
)
def test_a_share_by_hardware_is_the_smallest_slice_that_holds_it(
    here: Path, amount: object, resource: str
) -> None:
    limits = container(here, "notebook", {"amount": amount})["resources"]["limits"]
    assert {name for name in limits if "/" in name} == {resource}


def test_a_share_by_software_is_a_slot_and_a_fraction(here: Path) -> None:
    decisions = {"amount": 0.25, "isolation": "shared", "class": "small"}
    its = pod(here, "notebook", decisions)
    assert its["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "4Gi"},
        "limits": {"memory": "4Gi", "gpufleet.io/gpu-share": "1"},
    }
    assert "gpufleet.io/shared" in [one["key"] for one in its["tolerations"]]
    metadata = template_metadata(here, "notebook", decisions)
    assert metadata["annotations"] == {"gpufleet.io/gpu-fraction": "0.25"}


def test_whoever_takes_any_gpu_is_bound_to_no_memory(here: Path) -> None:
    assert {term[0] for term in terms(pod(here, "inference", {"class": "any"}))} == set(SPOT_LABELS)
    spot = pod(here, "inference", {"class": "any", "spot": True})
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in spot["affinity"]["nodeAffinity"]


@pytest.mark.parametrize("app", APPS)
def test_every_pod_says_whose_it_is_and_may_nothing(here: Path, app: str) -> None:
    labels = template_metadata(here, app)["labels"]
    team = "search" if app == "inference" else "research"
    assert labels["standards.gpufleet.io/team"] == labels["standards.gpufleet.io/cost-centre"] == team
    assert labels["standards.gpufleet.io/workload-kind"] == app
    assert container(here, app)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        ({"class": "enormous"}, "class"),
        ({"amount": 0}, "amount"),
        ({"amount": 1.5}, "amount"),
        ({"amount": "1"}, "amount"),
        ({"kind": None}, "kind"),
        ({"team": None}, "team"),
        ({"team": "Team A"}, "team"),
        ({"spot": "yes"}, "spot"),
        ({"isolation": "none"}, "isolation"),
        ({"toleration": "mine"}, "toleration"),
        ({"amount": 0.25, "isolation": "hardware", "class": "small"}, "class small has no MIG profile"),
        ({"amount": 0.75, "isolation": "hardware"}, "at most 0.5"),
    ],
)
def test_what_cannot_be_is_refused_by_name(here: Path, decisions: dict[str, Any], said: str) -> None:
    assert said in refusal(here, "inference", decisions)


def test_a_convention_that_changes_in_the_chart_changes_in_all(tmp_path: Path) -> None:
    here = copied(tmp_path)
    file = here / CONVENTIONS
    text = file.read_text(encoding="utf-8")
    old = "{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"
    assert text.count(old) == 1
    file.write_text(text.replace(old, '{key: gpu, operator: Equal, value: "true", effect: NoExecute}'))
    update(here)
    for app in APPS:
        first = pod(here, app)["tolerations"][0]
        assert first == {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoExecute"}


def test_a_convention_that_changes_in_global_values_changes_in_all(here: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours.yaml"
    changed = "runtimeClass: '', labels: {team: acme.example/team}, costCentres: {research: cc-7}"
    ours.write_text(f"global: {{standards: {{{changed}}}}}")
    for app in APPS:
        assert "runtimeClassName" not in pod(here, app, ours)
        labels = template_metadata(here, app, ours)["labels"]
        assert labels["acme.example/team"] in {"search", "research"}
        # What was not changed stays.
        assert labels["standards.gpufleet.io/cost-centre"] == ("search" if app == "inference" else "cc-7")


def test_shares_by_software_need_the_scheduler_that_makes_them(here: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours.yaml"
    ours.write_text(
        "standards: {gpu: {amount: 0.5, isolation: shared}}\nglobal: {standards: {scheduler: ''}}\n"
    )
    said = helm("template", "sample", here / "examples/standards/notebook", f"--values={ours}", code=1)
    assert "needs the scheduler gpufleet" in said


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize(
    "decisions", [{}, {"spot": True, "class": "any"}, {"amount": 0.5, "isolation": "shared"}]
)
def test_lint_finds_nothing(
    here: Path, tmp_path: Path, app: str, decisions: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    if app == "notebook" and decisions.get("class") == "any":
        decisions = {**decisions, "isolation": "shared"}
    file = tmp_path / "app.yaml"
    file.write_text(rendered_app(here, app, decisions))
    assert main(["lint", "--fail-on=info", str(file)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("app", APPS)
def test_helm_finds_nothing_to_complain_about(here: Path, app: str) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", here / "examples" / "standards" / app)
    assert objects(here, app)


def test_the_page_shows_what_helm_prints(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    assert len(SHOWN) >= 4
    for line, printed in SHOWN:
        command, _, pattern = line.partition(" | grep ")
        said = helm(*shlex.split(command)[1:], code=1 if printed.startswith("Error") else 0)
        shown = [one for one in said.splitlines() if pattern in one]
        assert shown == printed.splitlines(), line
