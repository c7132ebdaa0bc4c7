"""Judges that no scheduler's mistake reaches on a server that does its part: histories made by hand."""

import json
import re
from typing import Any

import pytest

from gpufleet.simulation.command import read_faults
from gpufleet.simulation.faults.catalogue import CATALOGUE
from gpufleet.simulation.history import NODE_DEVICES, PODS, History, Rules
from gpufleet.simulation.invariants import PROMISES, judge
from gpufleet.simulation.object_store import Written
from tests.conventions.project import ROOT

GRANT = '{"v":1,"epoch":1,"containers":{"main":[{"id":"GPU-a-0","kind":"whole","gpuMilli":1000}]}}'


def pod(node: str = "", *, told: bool = False, gated: bool = False, phase: str = "Pending") -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulerName": "gpufleet", "containers": []}
    if node:
        spec["nodeName"] = node
    if gated:
        spec["schedulingGates"] = [{"name": "example.com/quota"}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Malformed", "message": "bad"}
    return {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {"gpufleet.io/grant": GRANT}},
        "spec": spec,
        "status": {"phase": phase, "conditions": [condition] if told else []},
    }


def report(*holders: str) -> dict[str, Any]:
    held = [{"device": "GPU-a-0", "podUID": uid, "gpuMilli": 1000} for uid in holders]
    return {"metadata": {"name": "a", "uid": "r"}, "spec": {"devices": [], "holders": held}}


def history(*values: dict[str, Any], poisoned: tuple[str, ...] = ()) -> History:
    """These versions, one after the other: pods, and reports of node "a"."""
    writes: list[Written] = []
    last: dict[str, dict[str, Any]] = {}
    for number, value in enumerate(values, start=1):
        kind = PODS if "namespace" in value["metadata"] else NODE_DEVICES
        name = (value["metadata"].get("namespace", ""), value["metadata"]["name"])
        before = last.get(name[1])
        writes.append(Written(number, float(number), kind, name, value, before, "someone"))
        last[name[1]] = value
    return History(tuple(writes), 1000.0, Rules(poisoned=frozenset(poisoned)))


def broken(found: History) -> set[str]:
    return {one.invariant for one in judge(found)}


def test_a_report_that_says_what_was_granted_is_in_order() -> None:
    assert "I4" not in broken(history(pod(), pod("a", phase="Running"), report("u")))


@pytest.mark.parametrize("holders", [(), ("somebody-else",)])
def test_a_report_that_says_something_else_is_found(holders: tuple[str, ...]) -> None:
    assert "I4" in broken(history(pod(), pod("a", phase="Running"), report(*holders)))


def member(said: int) -> dict[str, Any]:
    """A member that runs of a gang of three, bound with this minimum of three, which says this one now."""
    found = pod("a", phase="Running")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    grant = json.loads(GRANT) | {"terms": {"queue": "", "gang": {"name": "gang/d/g", "minMembers": 3}}}
    written = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": str(said)}
    found["metadata"]["annotations"] = written | {"gpufleet.io/grant": json.dumps(grant)}
    found["metadata"]["ownerReferences"] = [owner]
    return found


@pytest.mark.parametrize(("said", "expected"), [(1, False), (2, True), (3, True), (50, True)])
def test_a_gang_is_half_bound_unless_a_member_says_that_fewer_are_enough(said: int, expected: bool) -> None:
    assert ("I3" in broken(history(member(3), member(said)))) is expected


def test_a_pod_that_moves_is_found() -> None:
    assert "I7" not in broken(history(pod(), pod("a")))
    assert "I7" in broken(history(pod(), pod("a"), pod("b")))


def test_a_gated_pod_that_gets_a_node_is_found() -> None:
    assert "I7" in broken(history(pod(gated=True), pod("a", gated=True)))


def test_a_broken_pod_that_is_bound_or_not_told_is_found() -> None:
    assert "I11" not in broken(history(pod(told=True), poisoned=("u",)))
    assert "I11" in broken(history(pod(), poisoned=("u",)))
    assert "I11" in broken(history(pod(), pod("a"), poisoned=("u",)))


def test_the_document_has_every_fault_with_its_number_and_every_promise() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d*) ?\| `([a-z0-9-]+)` \|", text, flags=re.MULTILINE)
    assert rows == [(str(number), row.name) for row in CATALOGUE for number in row.numbers or ("",)]
    for asked in re.findall(r"--fault ([a-z0-9,-]+)", text):
        assert asked == "all" or read_faults(asked)
    of_schedulers = text.partition("## The promises")[2].partition("\n## ")[0]
    promises = re.findall(r"^\| (alive|I\d+|benefit|explain) \|", of_schedulers, flags=re.MULTILINE)
    assert promises == list(PROMISES)
