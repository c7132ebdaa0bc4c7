"""Preflight of nodes that need a rollout, from the API and from a file of facts."""

import json
from pathlib import Path

import pytest

from gpufleet.kube.connection import ClusterChoice
from gpufleet.model.model_errors import InputError
from gpufleet.operator.answer import PlannedFinding
from gpufleet.operator.questions import PolicySource, plan_of
from tests.operator.builders import DIGEST, node_object, policy_object

IMAGE = {"source": "Image", "image": DIGEST}
STUCK = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}


def findings(folder: Path, facts: object = None, **driver: str) -> dict[str, PlannedFinding]:
    objects = [policy_object(driver=driver or IMAGE), node_object("a", labels=STUCK)]
    path, more = folder / "objects.json", folder / "facts.json"
    path.write_text(json.dumps({"items": objects}), encoding="utf-8")
    more.write_text(json.dumps(facts or {}), encoding="utf-8")
    found = plan_of(PolicySource((str(path),), ClusterChoice(), is_offline=True, host_facts=str(more)))
    return {one.rule: one for one in found.nodes[0].preflight}


def test_what_the_api_tells_is_judged_and_the_rest_is_not_known(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert found["foreign-upgrade-unfinished"].severity == "blocks"
    assert "loaded modules" in found["facts-unknown"].message
    assert set(found) == {"foreign-upgrade-unfinished", "facts-unknown"}


def test_a_file_adds_what_stands_on_the_host(tmp_path: Path) -> None:
    modules = {"nouveau": {"references": 1}}
    found = findings(
        tmp_path,
        {
            "nodes": {"a": {"host": {"modules": modules, "architecture": "arm64"}, "gpu_pods": []}},
            "images": {DIGEST: {"architectures": ["amd64"]}},
        },
    )
    assert {"nouveau-loaded", "image-architecture"} <= set(found)
    assert "loaded modules" not in found["facts-unknown"].message


def test_a_node_that_needs_no_rollout_is_not_judged(tmp_path: Path) -> None:
    assert findings(tmp_path, source="Host") == {}


def test_a_file_that_says_what_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--host-facts"):
        findings(tmp_path, {"node": {}})
