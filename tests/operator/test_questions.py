"""What `gpufleet policy` finds out from files alone."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.kube.connection import ClusterChoice
from gpufleet.model.model_errors import InputError
from gpufleet.operator.answer import PolicyPlan
from gpufleet.operator.questions import PolicySource, plan_of
from tests.operator.builders import DIGEST, node_object, policy_object


def offline(folder: Path, *objects: dict[str, Any]) -> PolicyPlan:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
    return plan_of(PolicySource((str(path),), ClusterChoice(), is_offline=True))


def test_a_plan_of_files_names_every_node_that_a_policy_selects(tmp_path: Path) -> None:
    found = offline(
        tmp_path,
        policy_object(labels={"tier": "gold"}),
        node_object("a"),
        node_object("b", labels={"gpu": "no"}),
    )
    assert found.policies == {"all": 1}
    assert [(one.node, [change.field for change in one.changes]) for one in found.nodes] == [
        ("a", ["label tier"])
    ]


def test_a_status_and_managers_from_kubectl_are_read_as_they_are(tmp_path: Path) -> None:
    written = {**policy_object(labels={"tier": "gold"}), "status": {"selected": 3, "conditions": []}}
    found = offline(tmp_path, written, node_object("a", labels={"tier": "gold"}, ours=("tier",)))
    assert found.nodes[0].changes == ()


def test_a_policy_that_cannot_be_is_told_and_harms_no_other(tmp_path: Path) -> None:
    bad = policy_object("bad", driver={"source": "Image", "image": "driver:latest"})
    found = offline(tmp_path, bad, policy_object("good", labels={"tier": "gold"}), node_object("a"))
    (problem,) = found.problems
    assert problem.policy == "bad"
    assert "spec.driver.image: not an image by digest" in problem.problem
    assert found.policies == {"good": 1}
    assert found.notes


def test_what_is_no_policy_at_all_is_an_error_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="FleetPolicy all"):
        offline(tmp_path, {**policy_object(), "spec": {"nodeSelector": 5}})
    with pytest.raises(InputError, match="no FleetPolicy"):
        offline(tmp_path, node_object("a"))


def test_the_json_says_null_for_what_is_not_known(tmp_path: Path) -> None:
    found = offline(tmp_path, policy_object(driver={"source": "Host", "version": "595.1"}), node_object("a"))
    told = json.loads(msgspec.json.encode(found))
    assert told["nodes"][0]["changes"][0] == {
        "field": "driver",
        "before": None,
        "after": "595.1 of the host",
        "way": "person",
        "policy": "all",
        "note": "nothing reports a driver: install one on the host, or choose source Image",
    }


def test_a_window_that_no_calendar_knows_is_told_by_its_field(tmp_path: Path) -> None:
    windows = [{"schedule": "0 22 * *", "duration": "8h"}]
    driver = {"source": "Image", "image": DIGEST}
    bad = policy_object("bad", driver=driver, rollout={"windows": windows})
    found = offline(tmp_path, bad, policy_object("good"), node_object("a"))
    (problem,) = found.problems
    assert "spec.rollout.windows[0].schedule: not five fields" in problem.problem
