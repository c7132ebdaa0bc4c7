"""What ``gpufleet drain`` does with a pod, over the cases of kubectl's own tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.drain.plan import Way
from gpufleet.kube import resources
from gpufleet.kube.objects.pod import Pod
from tests.cluster.snapshots.small_snapshots import HOUR_AGO, Fleet
from tests.published_cases import expected, name_of, published_cases

KUBECTL = published_cases(__file__, "kubectl")["pods"]
OUTCOMES = {
    Way.MOVES: "leaves",
    # A pod that was told to end is gone when the drain is over.
    Way.WAITS: "leaves",
    Way.STAYS: "refused",
}


def pod_of(case: dict[str, Any]) -> dict[str, Any]:
    """The pod of a case, with one GPU of the node."""
    metadata: dict[str, Any] = {"name": "bar", "namespace": "default", "uid": "bar"}
    metadata["creationTimestamp"] = HOUR_AGO
    grant = {"v": 1, "epoch": 1, "containers": {"main": [{"id": "GPU-gpu-1-0", "kind": "whole"}]}}
    metadata["annotations"] = {"gpufleet.io/grant": json.dumps(grant)}
    if "owner" in case:
        kind = case["owner"]
        owner = {"apiVersion": "v1", "kind": kind, "name": "it", "uid": "123", "controller": True}
        metadata["ownerReferences"] = [owner]
    if "leaving_s" in case:
        metadata["deletionTimestamp"] = f"2026-03-01T11:{59 - case['leaving_s'] // 60}:00Z"
    volumes = [{"name": "scratch", "emptyDir": {}}] if case.get("empty_dir") else []
    limits = {"nvidia.com/gpu": "1"}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    spec = {"schedulerName": "gpufleet", "nodeName": "gpu-1", "containers": containers, "volumes": volumes}
    return {"metadata": metadata, "spec": spec, "status": {"phase": case.get("phase", "Running")}}


@pytest.mark.parametrize("case", KUBECTL, ids=name_of)
def test_a_pod_leaves_or_stays_as_in_their_case(
    case: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.node("gpu-2")
    fleet.put(resources.PODS, Pod, pod_of(case))
    path = fleet.write(tmp_path / "fleet")
    assert main(["drain", "gpu-1", "-o", "json", "--snapshot", str(path)]) == ExitCode.DONE
    planned = [Way(one["way"]) for one in json.loads(capsys.readouterr().out)["work"]]
    # What is not in the plan is nothing that a drain asks about.
    assert ([OUTCOMES[way] for way in planned] or ["stays"]) == [expected(case)]
