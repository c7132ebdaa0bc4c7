"""`gpufleet policy`: its text, its JSON, and how it ends; docs/fleet-policies.md shows the first lines."""

import json
from pathlib import Path

import pytest

from gpufleet.cli.main import main
from tests.conventions.pages import steps
from tests.conventions.project import ROOT

EXAMPLES = ROOT / "examples" / "fleet-policies"
CONFLICT = (
    "label example.com/tier is gold, set by before-first-apply, and not shared; "
    "remove it there, or in the policy"
)
BOTH = (str(EXAMPLES / "policies.yaml"), str(EXAMPLES / "nodes.yaml"))


def test_the_command_of_the_page_prints_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    ((command, shown),) = steps(ROOT / "docs" / "fleet-policies.md")
    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out.splitlines()[: len(shown)] == shown


def test_every_kind_of_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "plan", "--offline", *BOTH]) == 0
    out = capsys.readouterr().out
    for line in (
        "  write     label nvidia.com/device-plugin.config: not there -> small (notebooks)",
        "  conflict  " + CONFLICT,
        "  left as it is by notebooks and slices, refused here",
        "  opts out of all policies: left as it is",
        "Rollout of all-gpus: 3 nodes; 1 canary alone, watched for 10m, then 2 waves of 1 node",
        "  at most 1h40m a node, 5h10m in all",
        "  passed over as they are now: lab-1, lab-2 and train-1 (not known to be ready)",
        "Nothing was changed.",
    ):
        assert line in out.splitlines(), out
    assert (
        "  rollout   driver: 580.95.05 of the host -> 595.91.07 from registry.example.com/nvidia/driver@"
        in out
    )
    assert "rollout: brought node by node" in out


def test_the_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "plan", "--offline", "-o", "json", *BOTH]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "gpufleet.io/policy-plan/v1"
    assert told["policies"] == {"all-gpus": 4, "notebooks": 2, "slices": 1}
    assert {one["node"]: one["optedOut"] for one in told["nodes"]}["old-1"] is True
    assert told["refusals"][0]["nodes"] == ["lab-2"]
    (rollout,) = told["rollouts"]
    assert (rollout["policy"], rollout["nodes"], rollout["canaries"], rollout["waves"]) == (
        "all-gpus",
        3,
        1,
        2,
    )


def test_a_node_that_keeps_its_driver_by_a_label_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    label = "gpufleet.io/fleet-policy: ignore"
    text = Path(BOTH[1]).read_text(encoding="utf-8")
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(text.replace(label, 'nvidia.com/gpu-driver-upgrade.skip: "true"'), encoding="utf-8")
    assert main(["policy", "plan", "--offline", BOTH[0], str(nodes)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert (
        "  its driver and its runtime stay as they are by its label nvidia.com/gpu-driver-upgrade.skip" in out
    )
    assert "Rollout of all-gpus: 3 nodes; 1 canary alone, watched for 10m, then 2 waves of 1 node" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "--offline"], "--offline takes all objects from files"),
        (["plan", "--offline", "--context=x", BOTH[0]], "--offline asks no cluster"),
        (["plan", "missing.yaml"], "is not there"),
        (["plan", "--offline", BOTH[1]], "no FleetPolicy"),
        (["status", "--output=wide"], "no such choice"),
    ],
)
def test_what_cannot_be_asked_is_told(
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["policy", *arguments]) == 2
    assert said in capsys.readouterr().err
