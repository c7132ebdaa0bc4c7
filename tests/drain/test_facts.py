"""A drain's plan from a snapshot: what is work, when it ends, what cannot move; as the command shows it."""

import json
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.kube import resources
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.objects.resource_slices import DeviceClassObject, ResourceSliceObject
from tests.cluster.snapshots.small_snapshots import Fleet


def fleet() -> Fleet:
    """Three nodes of four GPUs."""
    found = Fleet()
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        found.node(name)
    return found


def plan(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> dict[str, tuple[str, ...]]:
    """What becomes of each work: its way, then the nodes where its pods go."""
    assert main(["drain", *options, "-o", "json", "--snapshot", str(path)]) == ExitCode.DONE
    said = json.loads(capsys.readouterr().out)
    return {
        one["name"]: (one["way"], *(move["target"] for move in one.get("moves", ()))) for one in said["work"]
    }


def test_a_gang_moves_and_a_pod_without_controller_stays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = fleet()
    for rank, node in enumerate(("gpu-1", "gpu-2")):
        found.pod(f"train-{rank}", gpus=3, node=node, job="train", gang=2)
    found.pod("bare", node="gpu-1", devices="3")
    assert plan(capsys, found.write(tmp_path / "fleet"), "gpu-1") == {
        "gang default/train": ("moves", "gpu-3", "gpu-2"),
        "pod default/bare": ("stays",),
    }


def test_a_pod_that_leaves_is_waited_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = fleet()
    found.pod("web", node="gpu-1", job="web", deleted="2026-03-01T12:00:30Z")
    assert plan(capsys, found.write(tmp_path / "fleet"), "gpu-1") == {"pod default/web": ("waits",)}


def test_a_rank_that_leaves_does_not_move_those_that_came_instead(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = fleet()
    found.pod("train-0", gpus=2, node="gpu-1", job="train", gang=2, deleted="2026-03-01T12:00:30Z")
    for number, node in enumerate(("gpu-2", "gpu-3")):
        found.pod(f"train-{number}-anew", gpus=2, node=node, job="train", gang=2)
    assert plan(capsys, found.write(tmp_path / "fleet"), "gpu-1") == {"pod default/train-0": ("waits",)}


def test_pods_of_the_node_and_work_without_gpus_may_stay(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = fleet()
    found.pod("web", gpus=0, node="gpu-1", job="web")
    path = found.write(tmp_path / "fleet")
    assert list(plan(capsys, path, "gpu-1")) == ["pod default/web"]
    assert plan(capsys, path, "gpu-1", "--only-gpus") == {}


DRA = "gpu.nvidia.com"


def with_claims() -> Fleet:
    """A pod on gpu-1 that has two of the devices there by a claim; gpu-2 and gpu-3 have as many free."""
    found = fleet()
    device_class = {"metadata": {"name": DRA}, "spec": {"selectors": []}}
    found.put(resources.DEVICE_CLASSES, DeviceClassObject, device_class)
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        named = [{"name": "gpu-0"}, {"name": "gpu-1"}]
        body = {"driver": DRA, "nodeName": name, "pool": pool, "devices": named}
        found.put(resources.RESOURCE_SLICES, ResourceSliceObject, {"metadata": {"name": name}, "spec": body})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "claims", "uid": "uid-of-claims", "controller": True}
    asked = {"name": "gpus", "exactly": {"deviceClassName": DRA, "allocationMode": "ExactCount", "count": 2}}
    results = [
        {"request": "gpus", "driver": DRA, "pool": "gpu-1", "device": device} for device in ("gpu-0", "gpu-1")
    ]
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}
    reach = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    claim = {
        "metadata": {"name": "claims-x", "namespace": "default", "uid": "c", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [asked]}},
        "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": reach},
            "reservedFor": [{"resource": "pods", "name": "claims", "uid": "uid-of-claims"}],
        },
    }
    found.put(resources.RESOURCE_CLAIMS, ResourceClaimObject, claim)
    named_claim = [{"name": "gpu", "resourceClaimName": "claims-x"}]
    found.pod("claims", gpus=0, node="gpu-1", job="claims", resourceClaims=named_claim)
    return found


def test_a_pod_with_a_claim_holds_gpus_and_moves_to_where_its_claim_can_be_served(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = with_claims().write(tmp_path / "fleet")
    (way, *targets) = plan(capsys, path, "gpu-1", "--only-gpus")["pod default/claims"]
    assert way == "moves"
    assert targets in (["gpu-2"], ["gpu-3"])
    assert main(["drain", "gpu-1", "-o", "json", "--snapshot", str(path)]) == ExitCode.DONE
    (work,) = json.loads(capsys.readouterr().out)["work"]
    assert work["gpus"] == 2


def test_a_node_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = fleet().write(tmp_path / "fleet")
    assert main(["drain", "gpu-9", "--snapshot", str(path)]) == ExitCode.BAD_INPUT
    assert "NODE: no such node, found 'gpu-9'" in capsys.readouterr().err


def test_the_plan_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = fleet()
    found.pod("big", gpus=4, node="gpu-1", job="big")
    for node in ("gpu-2", "gpu-3"):
        found.pod(f"on-{node}", gpus=4, node=node, job=node)
    path = found.write(tmp_path / "fleet")
    assert main(["drain", "gpu-1", "--snapshot", str(path)]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert "pod default/big  4     fits nowhere else" in said
    assert "4 GPUs are short for work that has to move, and for how long is not known." in said
